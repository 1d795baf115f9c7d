# shellcheck shell=bash
# Sourced by the tests: a folder for a sandbox of their own, with the built programs in it, and a folder for work; both are gone, and the sandbox
# is ended, when the test ends, however it ends. The test sets SANDBOX_HOSTS and SANDBOX_SUBNET before, and calls start_sandbox.
SANDBOX_DIR=$(mktemp -d)
export SANDBOX_DIR SANDBOX_HOSTS SANDBOX_SUBNET
work=$(mktemp -d)
mkdir "$SANDBOX_DIR/bin"
ln .sandbox/bin/* "$SANDBOX_DIR/bin/" 2>/dev/null || cp .sandbox/bin/* "$SANDBOX_DIR/bin/"
cp -R .sandbox/bin/.stamps "$SANDBOX_DIR/bin/" # without them everything would be linked again

finish() {
  "$SANDBOX_DIR/bin/sandbox" down >/dev/null
  rm -rf "$SANDBOX_DIR" "$work"
}
trap finish EXIT

start_sandbox() {
  "$SANDBOX_DIR/bin/sandbox" up >"$work/up.log" 2>&1 || {
    cat "$work/up.log"
    return 1
  }
}

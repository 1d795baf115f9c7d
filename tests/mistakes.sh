#!/usr/bin/env bash
# Makes the mistakes that users make, and looks at what they see: a message that names the input and the remedy, a reason code, an exit code
# that is not zero, and nothing changed on the hosts or the cluster. Needs root, `make build`, `make payload`, `make setup` and the
# sandbox's programs; starts and ends a sandbox of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
export SANDBOX_ODD=3=linux,4=no-containerd,5=build:14393 SANDBOX_WINRM=2
SANDBOX_HOSTS=5 SANDBOX_SUBNET=10.97.0.0/24
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
start_sandbox
venv=${1:-.venv}
inventory=$SANDBOX_DIR/inventory
kubeconfig=$SANDBOX_DIR/kubeconfig
collection=build/ansible_collections/wsu/windows
export ANSIBLE_CALLBACK_RESULT_FORMAT=yaml HOME=$work

kubectl() { "$SANDBOX_DIR/bin/kubectl" --kubeconfig "$kubeconfig" "$@"; }
on_host() { # on_host NUMBER COMMAND
  ssh -i "$SANDBOX_DIR/ssh/id_ed25519" -o UserKnownHostsFile="$SANDBOX_DIR/ssh/known_hosts" "Administrator@10.97.0.$((10 + $1))" "$2" 2>&1 || true
}
# What a mistake must not change: the cluster's nodes and requests, the drive and the services of the host that it is about.
about=1
state() {
  kubectl get nodes,csr -o name
  on_host "$about" 'dir /b C:\ & dir /b C:\Windows\Temp & reg query HKLM\SYSTEM\CurrentControlSet\Services\kubelet'
}
# What no output may hold: the password of the sandbox's accounts, and the wrong one.
echo 'ansible_password: Wrong-Wsu-0123456789' >"$work/wrong-password.yml"
{ sed -n 's/^ *ansible_password: *//p' "$inventory/hosts.yml" | sort -u; echo Wrong-Wsu-0123456789; } >"$work/secrets"
failures=0
mistake() { # mistake NAME REASON TEXT ARGUMENT...: scaleup with these arguments fails with this reason and this text
  local name=$1 reason=$2 text=$3 output before after
  shift 3
  before=$(state)
  if output=$("$venv/bin/ansible-playbook" scaleup.yml -i "$inventory" "$@" 2>&1); then
    problem "$name" "it did not fail" "$output"
    return
  fi
  after=$(state)
  if ! grep -qE "reason: $reason|\($reason\)|\"reason\": \"$reason\"" <<<"$output"; then
    problem "$name" "no reason $reason" "$output"
  elif ! tr -s '\n ' ' ' <<<"$output" | grep -qF -- "$text"; then
    problem "$name" "no text '$text'" "$output"
  elif grep -qF -f "$work/secrets" <<<"$output"; then
    problem "$name" "a password is shown" "$output"
  elif [[ $before != "$after" ]]; then
    problem "$name" "something was changed: $(diff <(echo "$before") <(echo "$after"))" "$output"
  else
    echo "ok   $name: $reason"
  fi
}
problem() {
  printf 'FAIL %s: %s in:\n%s\n' "$1" "$2" "$(tail -n 60 <<<"$3")"
  failures=$((failures + 1))
}
one=("--limit=localhost,winhost1")

mistake "no kubeconfig" kubeconfig_missing /nope "${one[@]}" -e openshift_kubeconfig_path=/nope
sed 's/:6443/:6444/' "$kubeconfig" >"$work/unreachable"
mistake "unreachable API server" api_unreachable 10.97.0.1:6444 "${one[@]}" -e "openshift_kubeconfig_path=$work/unreachable"
printf '[new_workers]\nwinhost1\n' >"$work/no-windows"
mistake "no hosts in the groups" no_hosts "is in [nothing]" -i "$work/no-windows" -e wsu_windows_group=nothing
mistake "a misspelt variable" variable_unknown "did you mean wsu_payload_url" "${one[@]}" -e wsu_paylod_url=x
mistake "a wrong value" argument_invalid wsu_ssh_host_key_fingerprint "${one[@]}" -e wsu_ssh_host_key_fingerprint=abc

ssh-keygen -q -t ed25519 -N '' -f "$work/other"
mistake "a wrong SSH key" auth_failed "$work/other" "${one[@]}" -e "ansible_ssh_private_key_file=$work/other"
mistake "a wrong password" auth_failed password "${one[@]}" -e "ansible_ssh_private_key_file=$work/other" -e "@$work/wrong-password.yml"
: >"$work/known_hosts"
mistake "an unknown host key" host_key_unknown "wsu_ssh_host_key_policy=accept-new" "${one[@]}" \
  -e "wsu_ssh_known_hosts_file=$work/known_hosts" -e ansible_ssh_common_args=
echo "10.97.0.11 $(cut -d' ' -f1,2 "$work/other.pub")" >"$work/known_hosts"
mistake "another host key" host_key_mismatch "another one is known" "${one[@]}" \
  -e "wsu_ssh_known_hosts_file=$work/known_hosts" -e ansible_ssh_common_args=
mistake "a host that is down" host_unreachable 10.97.0.99 "${one[@]}" -e ansible_host=10.97.0.99 -e ansible_ssh_timeout=3
mistake "host key checking turned off" argument_invalid accept-new "${one[@]}" -e "ansible_ssh_common_args='-o StrictHostKeyChecking=no'"
mistake "not Windows" not_windows winhost3 --limit localhost,winhost3
mistake "no container runtime" runtime_missing "no service containerd" --limit localhost,winhost4
mistake "an unsupported build" windows_unsupported 14393 --limit localhost,winhost5
mistake "two hosts with one node name" node_name_duplicate "also that of winhost2" --limit localhost,winhost1,winhost2 -e wsu_node_name=same
mistake "a name that no node can have" node_name_invalid "wsu_node_name" "${one[@]}" -e wsu_node_name=Not_A_Name
mistake "an address of another machine" network_unsuitable "wsu_node_ip" "${one[@]}" -e wsu_node_ip=10.97.0.200

about=2
two=("--limit=localhost,winhost2")
http=(-e ansible_winrm_scheme=http -e ansible_port=5985)
other_ca=(-e "ansible_winrm_ca_trust_path=$SANDBOX_DIR/pki/mirror-ca.crt")
mistake "WinRM: a wrong password" auth_failed "user Administrator was refused" "${two[@]}" -e "@$work/wrong-password.yml" -vvvv
mistake "WinRM: a wrong password with basic" auth_failed "user Administrator was refused" "${two[@]}" \
  -e "@$work/wrong-password.yml" -e ansible_winrm_transport=basic
mistake "WinRM: no password" argument_invalid "needs ansible_user and ansible_password" "${two[@]}" -e ansible_password=
mistake "WinRM: a certificate of nobody who is trusted" host_key_unknown ansible_winrm_ca_trust_path "${two[@]}" -e ansible_winrm_ca_trust_path=
mistake "WinRM: a certificate of another authority" host_key_unknown wsu_winrm_certificate_fingerprint "${two[@]}" "${other_ca[@]}"
mistake "WinRM: certificate checking turned off" argument_invalid wsu_winrm_certificate_fingerprint "${two[@]}" -e ansible_winrm_server_cert_validation=ignore
mistake "WinRM: another certificate than the pinned one" host_key_mismatch "says another one" "${two[@]}" \
  -e "wsu_winrm_certificate_fingerprint=SHA256:$(printf '0%.0s' {1..64})"
mistake "WinRM: basic over http" argument_invalid "even the password" "${two[@]}" "${http[@]}" -e ansible_winrm_transport=basic
mistake "WinRM: https at the port of http" host_unreachable "5986 is https, 5985 is http" "${two[@]}" -e ansible_port=5985
mistake "WinRM: http at the port of https" connection_lost ansible_winrm_scheme "${two[@]}" -e ansible_winrm_scheme=http
mistake "WinRM: a login that is not supported" argument_invalid '"credssp" is not supported' "${two[@]}" -e ansible_winrm_transport=credssp
mistake "WinRM: a client certificate that the host does not know" auth_failed "client certificate" "${two[@]}" -e ansible_winrm_transport=certificate \
  -e "ansible_winrm_cert_pem=$SANDBOX_DIR/pki/admin.crt" -e "ansible_winrm_cert_key_pem=$SANDBOX_DIR/pki/admin.key"
mistake "WinRM: a host that is down" host_unreachable 10.97.0.99 "${two[@]}" -e ansible_host=10.97.0.99 -e ansible_winrm_connection_timeout=3
kerberos=(-e ansible_winrm_transport=kerberos -e ansible_user=Administrator@WSU.TEST)
sed 's/:88$/:89/' "$SANDBOX_DIR/krb5.conf" >"$work/krb5.conf"
KRB5_CONFIG=$work/krb5.conf mistake "WinRM: no Kerberos server" auth_failed "and the KDC in $work/krb5.conf" "${two[@]}" "${kerberos[@]}"
KRB5_CONFIG=$work/nowhere mistake "WinRM: no Kerberos configuration" auth_failed "$work/nowhere cannot be used" "${two[@]}" "${kerberos[@]}"
KRB5_CONFIG=$SANDBOX_DIR/krb5.conf mistake "WinRM: a wrong Kerberos password" auth_failed "Administrator@WSU.TEST cannot log in" "${two[@]}" "${kerberos[@]}" \
  -e "@$work/wrong-password.yml"
KRB5_CONFIG=$SANDBOX_DIR/krb5.conf mistake "WinRM: a host that the realm does not know" auth_failed "there is no ticket for HTTP/nowhere" \
  "${two[@]}" "${kerberos[@]}" -e ansible_winrm_kerberos_hostname_override=nowhere
about=1

"$SANDBOX_DIR/bin/sandbox" fill winhost1 --leave 50000000 >/dev/null
mistake "a full disk" disk_full "MB are needed" "${one[@]}"
"$SANDBOX_DIR/bin/sandbox" unfill winhost1 >/dev/null

kubectl create -f - >/dev/null <<NODE
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "winhost1", "labels": {"kubernetes.io/os": "windows"}}}
NODE
kubectl patch node winhost1 --subresource=status --type merge -p \
  '{"status": {"nodeInfo": {"systemUUID": "11111111-2222-3333-4444-555555555555", "operatingSystem": "windows"}}}' >/dev/null
mistake "another machine's node has the name" foreign_node "oc delete node winhost1" "${one[@]}"
kubectl delete node winhost1 >/dev/null

mkdir "$work/payload"
cp build/payload/*.exe "$work/payload/"
printf x | dd of="$work/payload/kube-log-runner.exe" bs=1 seek=1000 conv=notrunc status=none
mistake "a bad checksum" payload_checksum "and release.yml says" "${one[@]}" -e "wsu_payload_url=$work/payload" -e "wsu_cache_dir=$work/cache1"
if find "$work/cache1" -name "$(awk '/name: kube-log-runner/ {getline; print $2}' $collection/release.yml)*" ! -name '*.lock' | grep .; then
  problem "a bad checksum" "something was kept" ""
fi
mistake "a payload that is not there" payload_unavailable "404" "${one[@]}" -e wsu_payload_url=https://10.97.0.1:8443/nowhere -e "wsu_cache_dir=$work/cache2"
mistake "a server that nobody vouches for" payload_unavailable wsu_payload_ca_file "${one[@]}" -e wsu_payload_ca_file= -e "wsu_cache_dir=$work/cache2"
mistake "no place of the payload" payload_unavailable "wsu_payload_url is not set" "${one[@]}" -e wsu_payload_url= -e "wsu_cache_dir=$work/cache2"
sed 's/^  url: kubelet.exe/  url: ""/' $collection/release.yml >"$work/release.yml"
mistake "a missing URL of the kubelet" release_invalid "kubelet.exe: it has no URL" "${one[@]}" -e "control_release_file=$work/release.yml" -e "wsu_cache_dir=$work/cache2"
sed 's/v1\.36\.3/v1.37.0/' $collection/release.yml >"$work/release.yml"
mistake "a kubelet newer than the API server" version_skew "newer than the API server v1.36.3" "${one[@]}" -e "control_release_file=$work/release.yml"

ignition() { # ignition NAME TEXT: the file $work/ign is refused
  mistake "$1" ignition_invalid "$2" "${one[@]}" -e wsu_ignition_source=file -e "wsu_ignition_file=$work/ign"
}
: >"$work/ign"
ignition "an empty Ignition" "$work/ign"
curl -sk --fail -H 'Accept: application/vnd.coreos.ignition+json;version=3.2.0' https://10.97.0.1:22623/config/worker >"$work/served"
head -c 5000 "$work/served" >"$work/ign"
ignition "a truncated Ignition" "$work/ign"
echo '{"ignition": {"version": "3.2.0"}}' >"$work/ign"
ignition "a malformed Ignition" kubelet.service
tr A B <"$work/served" >"$work/ign"
ignition "a damaged Ignition" "$work/ign"
if [[ -d ${WSU_SHARED_DATA:-../shared/data} ]]; then
  cp "${WSU_SHARED_DATA:-../shared/data}/ignition/release-5.0-none/worker.served.spec3.4.0.ign" "$work/ign"
  ignition "another cluster's Ignition" "another cluster"
fi

kubectl patch network.operator cluster --type json -p '[{"op": "remove", "path": "/spec/defaultNetwork/ovnKubernetesConfig/hybridOverlayConfig"}]' >/dev/null
mistake "no hybrid overlay" hybrid_overlay_missing hybridOverlayConfig "${one[@]}"

if ((failures > 0)); then
  echo "$failures mistakes are not met as they should be"
  exit 1
fi

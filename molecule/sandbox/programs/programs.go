// Package programs builds the small Windows programs that the sandbox puts into a Windows host. Each has a folder of its own here.
package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The names of the executables.
const (
	SSHSession    = "sshsession.exe"    // runs an SSH session's command as Windows' OpenSSH does
	Refuse        = "refuse.exe"        // stands in for tools that Wine only pretends to have
	Tar           = "tar.exe"           // unpacks what it reads on stdin, as Windows' bsdtar does
	ServiceStates = "servicestates.exe" // tells the states of the services
)

// Refused lists the tools, as paths below system32, that Wine 8 has as programs that do nothing and return 0, or lacks though a product
// is likely to call them.
func Refused() []string {
	return []string{
		"WindowsPowerShell/v1.0/powershell.exe", "pwsh.exe", "certutil.exe", "cscript.exe", "dism.exe", "findstr.exe", "icacls.exe",
		"mshta.exe", "netsh.exe", "robocopy.exe", "schtasks.exe", "secedit.exe", "shutdown.exe", "systeminfo.exe", "takeown.exe",
		"tasklist.exe", "wevtutil.exe", "where.exe", "wmic.exe", "wscript.exe",
	}
}

// Build compiles the programs from the module in moduleDir into outDir.
func Build(ctx context.Context, moduleDir, outDir string) error {
	out, err := filepath.Abs(outDir)
	if err != nil {
		return fmt.Errorf("windows programs: %s: %w", outDir, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out+string(filepath.Separator),
		"./programs/sshsession", "./programs/refuse", "./programs/tar", "./programs/servicestates")
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("windows programs: go build in %s: %w: the module directory has to be that of wsu.windows/sandbox\n%s",
			moduleDir, err, said)
	}
	return nil
}

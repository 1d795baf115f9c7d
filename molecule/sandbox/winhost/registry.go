package winhost

import (
	"fmt"
	"os"
	"path"
	"strings"

	"wsu.windows/sandbox/programs"
)

// registry is a list of keys in the form of Wine's registry files. Appended to such a file while no wineserver has it loaded, it adds to
// the keys above it and replaces values of the same name.
type registry []string

func key(path string, values ...string) string {
	return fmt.Sprintf("\n[%s] 1700000000\n%s\n", strings.ReplaceAll(path, `\`, `\\`), strings.Join(values, "\n"))
}

func text(name, value string) string {
	return fmt.Sprintf(`"%s"="%s"`, name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
}

func number(name string, value uint32) string { return fmt.Sprintf(`"%s"=dword:%08x`, name, value) }

// baseRegistry makes Wine report itself as Windows Server 2022. RtlGetVersion reads the same values.
func baseRegistry() registry {
	return append(windowsVersion(20348, "Windows Server 2022 Datacenter", "21H2"),
		key(`System\CurrentControlSet\Control\ProductOptions`, text("ProductType", "ServerNT")))
}

// userRegistry makes Wine run the programs that take the place of its own: in system32 it prefers its own otherwise.
func userRegistry() registry {
	var natives []string
	for _, tool := range append(programs.Refused(), programs.Tar) {
		natives = append(natives, text(path.Base(tool), "native"))
	}
	return registry{key(`Software\Wine\DllOverrides`, natives...)}
}

func windowsVersion(build int, product, release string) registry {
	values := []string{
		text("CurrentBuild", fmt.Sprint(build)),
		text("CurrentBuildNumber", fmt.Sprint(build)),
		number("UBR", 2000),
		text("ProductName", product),
		text("DisplayVersion", release),
		text("EditionID", "ServerDatacenter"),
		text("InstallationType", "Server Core"),
	}
	return registry{
		key(`Software\Microsoft\Windows NT\CurrentVersion`, values...),
		key(`Software\Wow6432Node\Microsoft\Windows NT\CurrentVersion`, values...),
	}
}

// productOf names the Windows release of a build number.
func productOf(build int) (product, release string) {
	switch build {
	case 14393:
		return "Windows Server 2016 Datacenter", "1607"
	case 17763:
		return "Windows Server 2019 Datacenter", "1809"
	case 26100:
		return "Windows Server 2025 Datacenter", "24H2"
	default:
		return "Windows Server 2022 Datacenter", "21H2"
	}
}

func appendTo(path string, keys registry) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.Join(keys, ""))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

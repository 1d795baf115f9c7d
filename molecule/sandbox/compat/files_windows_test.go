package compat_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// private is for SYSTEM and Administrators alone, and protected from what the folder above would add.
const private = "O:BAG:SYD:P(A;;FA;;;SY)(A;;FA;;;BA)"

// The Linux side of the test looks at the modes of what lies in here.
const security = `C:\sandbox\security`

func TestAProtectedDACLClosesAFileToOthers(t *testing.T) {
	require.NoError(t, os.MkdirAll(security, 0o777))
	descriptor, err := windows.SecurityDescriptorFromString(private)
	require.NoError(t, err)
	dacl, _, err := descriptor.DACL()
	require.NoError(t, err)

	born := filepath.Join(security, "born-private")
	name, err := windows.UTF16PtrFromString(born + ".new")
	require.NoError(t, err)
	attributes := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = 24
	handle, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, attributes, windows.CREATE_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL, 0)
	require.NoError(t, err)
	require.NoError(t, windows.CloseHandle(handle))
	require.NoError(t, os.Rename(born+".new", born))

	set := filepath.Join(security, "set-private")
	require.NoError(t, os.WriteFile(set, []byte("x"), 0o644))
	require.NoError(t, windows.SetNamedSecurityInfo(set, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl, nil))

	folder := filepath.Join(security, "folder-private")
	require.NoError(t, os.MkdirAll(folder, 0o777))
	require.NoError(t, windows.SetNamedSecurityInfo(folder, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl, nil))

	require.NoError(t, os.WriteFile(filepath.Join(security, "public"), []byte("x"), 0o644))
}

func running(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o755))
	cmd := exec.Command(path, "hold")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		io.WriteString(stdin, "x")
		cmd.Wait()
	})
	return cmd
}

func TestARunningExecutableCanBeRenamedAsideAndNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "held.exe")
	running(t, path)
	_, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.ErrorIs(t, err, windows.ERROR_SHARING_VIOLATION)
	require.ErrorIs(t, os.Remove(path), windows.ERROR_ACCESS_DENIED)

	fresh := filepath.Join(dir, "fresh.exe")
	require.NoError(t, os.WriteFile(fresh, []byte("new"), 0o755))
	require.ErrorIs(t, os.Rename(fresh, path), windows.ERROR_ACCESS_DENIED)
	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.Rename(fresh, path))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "new", string(content))
}

func TestFoldersAreRemovedWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b", "ü"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "ü", "f"), nil, 0o444))
	require.NoError(t, os.RemoveAll(dir))
	assert.NoDirExists(t, dir)

	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.Mkdir("x", 0o755))
	require.NoError(t, root.WriteFile(`x\f`, []byte("1"), 0o644))
	require.NoError(t, root.RemoveAll("x"))
}

func TestHardLinksAndWriteThroughRenames(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	require.NoError(t, os.WriteFile(a, []byte("1"), 0o644))
	require.NoError(t, os.Link(a, b))
	first, err := os.Stat(a)
	require.NoError(t, err)
	second, err := os.Stat(b)
	require.NoError(t, err)
	assert.True(t, os.SameFile(first, second))

	require.NoError(t, os.WriteFile(c, []byte("2"), 0o644))
	from, _ := windows.UTF16PtrFromString(c)
	to, _ := windows.UTF16PtrFromString(a)
	require.NoError(t, windows.MoveFileEx(from, to, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH))
	content, err := os.ReadFile(a)
	require.NoError(t, err)
	assert.Equal(t, "2", string(content))
	content, err = os.ReadFile(b)
	require.NoError(t, err)
	assert.Equal(t, "1", string(content), "the other link keeps the old content")
}

func TestFreeSpaceIsThatOfDriveC(t *testing.T) {
	var free, total, all uint64
	name, _ := windows.UTF16PtrFromString(`C:\`)
	require.NoError(t, windows.GetDiskFreeSpaceEx(name, &free, &total, &all))
	assert.Greater(t, total, uint64(1<<30))
	assert.LessOrEqual(t, free, total)
	label := make([]uint16, 64)
	require.NoError(t, windows.GetVolumeInformation(name, nil, 0, nil, nil, nil, &label[0], uint32(len(label))))
}

func TestALinkToAFileCanBeRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "target"), []byte("1"), 0o644))
	require.NoError(t, os.Symlink("target", filepath.Join(dir, "link")))
	content, err := os.ReadFile(filepath.Join(dir, "link"))
	require.NoError(t, err)
	assert.Equal(t, "1", string(content))
	assert.Error(t, os.Symlink("absent", filepath.Join(dir, "dangling")))
}

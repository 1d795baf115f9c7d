package securefile

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// rights: protected from inheritance, full access for SYSTEM and Administrators, inherited by what is made inside.
const (
	fileRights   = "D:P(A;;FA;;;SY)(A;;FA;;;BA)"
	folderRights = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
)

// heldFor is how long a write waits for virus scanners and indexers, which open every new file for a moment.
const heldFor = 3 * time.Second

func securityAttributes(sddl string) (*windows.SecurityAttributes, error) {
	descriptor, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return nil, fmt.Errorf("security descriptor %s: %w", sddl, err)
	}
	return &windows.SecurityAttributes{Length: uint32(unsafe.Sizeof(windows.SecurityAttributes{})), SecurityDescriptor: descriptor}, nil
}

func create(path string) (*os.File, error) {
	attributes, err := securityAttributes(fileRights)
	if err != nil {
		return nil, err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, windows.FILE_SHARE_READ, attributes,
		windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

func move(from, to string) error {
	source, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	target, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(heldFor); ; time.Sleep(50 * time.Millisecond) {
		err = windows.MoveFileEx(source, target, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
		if err == nil {
			return nil
		}
		// A running program answers "access denied" and does so until it ends: no use in waiting for it here.
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) || time.Now().After(deadline) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
	}
}

func isHeld(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_USER_MAPPED_FILE)
}

func deleteAtBoot(path string) {
	if name, err := windows.UTF16PtrFromString(path); err == nil {
		_ = windows.MoveFileEx(name, nil, windows.MOVEFILE_DELAY_UNTIL_REBOOT) // SweepAside is the second chance
	}
}

func makeFolder(path string) error {
	attributes, err := securityAttributes(folderRights)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	if err := windows.CreateDirectory(name, attributes); err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// Protect gives a file or folder the rights that Write and MakeFolder give.
func Protect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	sddl := fileRights
	if info.IsDir() {
		sddl = folderRights
	}
	descriptor, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return err
	}
	dacl, _, err := descriptor.DACL()
	if err != nil {
		return err
	}
	err = windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl, nil)
	if err != nil {
		return fmt.Errorf("%s: its access rights: %w", path, err)
	}
	return nil
}

// CheckAccess names everybody who has access besides SYSTEM, Administrators and the owner, who can take any right anyway. An empty list
// is as it shall be. Names are SIDs: account names are localised.
func CheckAccess(path string) ([]string, error) {
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, &os.PathError{Op: "read the access rights of", Path: path, Err: err}
	}
	dacl, _, err := descriptor.DACL()
	if err != nil || dacl == nil {
		return []string{"everybody: there is no access list"}, nil //nolint:nilerr // no list is the worst list
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return nil, fmt.Errorf("%s: its owner: %w", path, err)
	}
	var extra []string
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return nil, fmt.Errorf("%s: entry %d of its access list: %w", path, i, err)
		}
		if ace.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE || ace.Mask == 0 {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		if !isTrusted(sid, owner) {
			extra = append(extra, fmt.Sprintf("%s: %#x", sid, uint32(ace.Mask)))
		}
	}
	return extra, nil
}

func isTrusted(sid, owner *windows.SID) bool {
	for _, trusted := range []windows.WELL_KNOWN_SID_TYPE{
		windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid, windows.WinCreatorOwnerSid,
	} {
		if sid.IsWellKnown(trusted) {
			return true
		}
	}
	return owner != nil && sid.Equals(owner)
}

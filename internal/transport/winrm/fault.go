package winrm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"wsu.windows/internal/reason"
)

// Codes of winerror.h and wsmerror.h, as faults carry them.
const (
	faultAccessDenied  = 5
	faultTimedOut      = 0x80338029 // ERROR_WSMAN_OPERATION_TIMEDOUT: there was no output for the operation's time
	faultNoShell       = 0x8033805b // ERROR_WSMAN_UNEXPECTED_SELECTORS: the shell is not there any more
	faultAborted       = 995        // ERROR_OPERATION_ABORTED: the command was ended
	faultBrokenPipe    = 109        // ERROR_BROKEN_PIPE: the command does not read any more
	faultNoData        = 232        // ERROR_NO_DATA: the same
	faultUsersShells   = 0x803381a5 // shells of the user
	faultUsersRequests = 0x803381a6 // operations of the user
	maxFaultText       = 400
)

// fault is a WS-Management fault.
type fault struct {
	Reason string `xml:"Reason>Text"`
	Detail struct {
		WSMan struct {
			Code    string `xml:"Code,attr"`
			Message string `xml:"Message"`
		} `xml:"WSManFault"`
		Code string `xml:"FaultDetail"`
	} `xml:"Detail"`
}

// code gives the number, 0 where there is none. Windows writes that of a system error alone or as an HRESULT.
func (f *fault) code() uint32 {
	const win32, facility = 0x80070000, 0xffff0000
	n, err := strconv.ParseInt(f.Detail.WSMan.Code, 10, 64)
	if err != nil {
		return 0
	}
	code := uint32(n) //nolint:gosec // Windows writes it with or without a sign
	if code&facility == win32 {
		code &^= facility
	}
	return code
}

func (f *fault) text() string {
	text := strings.Join(strings.Fields(f.Detail.WSMan.Message), " ")
	if text == "" {
		text = strings.Join(strings.Fields(f.Reason), " ")
	}
	return clean(text[:min(len(text), maxFaultText)])
}

func (f *fault) Error() string { return fmt.Sprintf("%s (WSManFault %d)", f.text(), f.code()) }

func isFault(err error, codes ...uint32) bool {
	var f *fault
	if !errors.As(err, &f) {
		return false
	}
	for _, code := range codes {
		if f.code() == code {
			return true
		}
	}
	return false
}

// explain makes of a fault what it means here.
func (s *settings) explain(err error) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	text := strings.ToLower(f.text())
	switch code := f.code(); {
	case code == faultAccessDenied:
		return reason.New(reason.AccessDenied, s.object(), fmt.Sprintf("user %s may not use the remote shell: %s", s.user, f.text()),
			"Use a local administrator; for a local account that is not the built-in one, set LocalAccountTokenFilterPolicy (docs/troubleshooting.md).")
	case code == faultUsersShells || code == faultUsersRequests || strings.Contains(text, "quota") || strings.Contains(text, "maximum number of concurrent"):
		return reason.New(reason.QuotaExceeded, s.object(), f.Error(), "")
	case code == faultNoShell:
		return reason.New(reason.ConnectionLost, s.object(), "the remote shell has ended: "+f.text(), "")
	case strings.Contains(text, "envelope size"):
		return reason.New(reason.QuotaExceeded, s.object(), f.Error(), "Set MaxEnvelopeSizekb back to 500, the default of Windows: winrm set winrm/config @{MaxEnvelopeSizekb=\"500\"}.")
	}
	return reason.New(reason.HostOutputInvalid, s.object(), "WinRM refuses: "+f.Error(), "")
}

// clean makes a text of the host fit to show.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

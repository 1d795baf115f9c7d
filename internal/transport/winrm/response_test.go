package winrm

import (
	"encoding/xml"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

func host(t testing.TB) *settings {
	t.Helper()
	s, err := newSettings(transport.Config{InventoryHostname: "win1", Host: "192.0.2.1", User: "Administrator", Password: "secret"})
	require.NoError(t, err)
	return s
}

func TestFaultsSayWhatTheyMeanForTheUser(t *testing.T) {
	for text, code := range map[string]reason.Code{
		`<f:WSManFault Code="5"><f:Message>Access is denied.</f:Message></f:WSManFault>`:                                                   reason.AccessDenied,
		`<f:WSManFault Code="2150859173"><f:Message>The maximum number of concurrent shells has been exceeded.</f:Message></f:WSManFault>`: reason.QuotaExceeded,
		`<f:WSManFault Code="2150858843"><f:Message>The shell was not found.</f:Message></f:WSManFault>`:                                   reason.ConnectionLost,
		`<f:WSManFault Code="-2144108453"><f:Message>The shell was not found.</f:Message></f:WSManFault>`:                                  reason.ConnectionLost,
		`<f:WSManFault Code="87"><f:Message>The parameter is incorrect.</f:Message></f:WSManFault>`:                                        reason.HostOutputInvalid,
	} {
		s := host(t)
		_, err := s.parse([]byte(`<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:f="http://schemas.microsoft.com/wbem/wsman/1/wsmanfault"><s:Body><s:Fault>` +
			`<s:Reason><s:Text xml:lang="en-US">It failed.</s:Text></s:Reason><s:Detail>` + text + `</s:Detail></s:Fault></s:Body></s:Envelope>`))
		require.Error(t, err)
		assert.True(t, reason.Is(s.explain(err), code), "%v", s.explain(err))
	}
}

func TestAnExitCodeIsTheSameWithAndWithoutASign(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "3010": 3010, "-1073741510": 0xc000013a, "3221225786": 0xc000013a} {
		s := host(t)
		a, err := s.parse([]byte(`<Envelope><Body><ReceiveResponse><Stream Name="stdout">aGVsbG8=</Stream><CommandState State="` + shellURI +
			`/CommandState/Done"><ExitCode>` + text + `</ExitCode></CommandState></ReceiveResponse></Body></Envelope>`))
		require.NoError(t, err)
		code, done := a.Body.Received.done()
		assert.True(t, done)
		assert.Equal(t, want, code)
	}
}

func TestWhatTheUserGivesCannotBecomeXML(t *testing.T) {
	s := host(t)
	raw := s.startCommand(`shell"><x`, `cmd.exe /c "a & b" <in >out ]]>`)
	var parsed struct {
		Command string `xml:"Body>CommandLine>Command"`
	}
	require.NoError(t, xml.Unmarshal(raw, &parsed))
	assert.Equal(t, `cmd.exe /c "a & b" <in >out ]]>`, parsed.Command)
}

func TestAPieceOfInputStaysBelowWindowsLimit(t *testing.T) {
	const room = 600 // what sealing and HTTP add
	message := host(t).sendInput(nil, "12345678-1234-1234-1234-123456789012", "12345678-1234-1234-1234-123456789012", make([]byte, sendSize), true)
	assert.Less(t, len(message), maxEnvelope-room)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`<Envelope><Body><ReceiveResponse><Stream Name="stdout">aGVsbG8=</Stream></ReceiveResponse></Body></Envelope>`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := host(t)
		a, err := s.parse(raw)
		if err != nil {
			_ = s.explain(err).Error()
			return
		}
		_, _ = a.Body.Received.done()
		_ = s.each(&a.Body.Received, func(string, []byte) error { return nil })
		_, _ = s.shellOf(a)
	})
}

package winrm

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// maxEnvelope is Windows' default MaxEnvelopeSizekb, in bytes.
	maxEnvelope = 500 << 10
	// sendSize is what of standard input goes into one message: its base64 and the envelope around it stay below maxEnvelope.
	sendSize = 381000

	shellURI  = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell"
	shellCmd  = shellURI + "/cmd"
	actCreate = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Create"
	actDelete = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Delete"
	terminate = shellURI + "/signal/terminate"
)

// envelope makes a message. The body is XML already; options are pairs of a name and a value.
func (s *settings) envelope(action, shell string, options []string, body string) []byte {
	head, tail := s.around(action, shell, options)
	return append(append(head, body...), tail...)
}

// around gives what stands before and behind a message's body.
func (s *settings) around(action, shell string, options []string) (head, tail []byte) {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" ` +
		`xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" ` +
		`xmlns:p="http://schemas.microsoft.com/wbem/wsman/1/wsman.xsd" xmlns:rsp="` + shellURI + `"><s:Header>`)
	fmt.Fprintf(&b, `<a:To>%s</a:To><a:ReplyTo><a:Address s:mustUnderstand="true">http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous`+
		`</a:Address></a:ReplyTo><w:MaxEnvelopeSize s:mustUnderstand="true">%d</w:MaxEnvelopeSize><a:MessageID>uuid:%s</a:MessageID>`+
		`<w:Locale xml:lang="en-US" s:mustUnderstand="false"/><p:DataLocale xml:lang="en-US" s:mustUnderstand="false"/>`+
		`<w:OperationTimeout>%s</w:OperationTimeout><w:ResourceURI s:mustUnderstand="true">%s</w:ResourceURI><a:Action s:mustUnderstand="true">%s</a:Action>`,
		escape(s.endpoint.String()), maxEnvelope, uuid.NewString(), duration(s.operation), shellCmd, action)
	if shell != "" {
		fmt.Fprintf(&b, `<w:SelectorSet><w:Selector Name="ShellId">%s</w:Selector></w:SelectorSet>`, escape(shell))
	}
	if len(options) > 0 {
		b.WriteString(`<w:OptionSet xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">`)
		for i := 0; i+1 < len(options); i += 2 {
			fmt.Fprintf(&b, `<w:Option Name="%s">%s</w:Option>`, options[i], options[i+1])
		}
		b.WriteString(`</w:OptionSet>`)
	}
	b.WriteString(`</s:Header><s:Body>`)
	return b.Bytes(), []byte(`</s:Body></s:Envelope>`)
}

// createShell asks for a shell that ends when nobody has asked for it for as long as idle.
func (s *settings) createShell(idle time.Duration) []byte {
	const utf8 = "65001"
	return s.envelope(actCreate, "", []string{"WINRS_NOPROFILE", "TRUE", "WINRS_CODEPAGE", utf8}, fmt.Sprintf(
		`<rsp:Shell><rsp:IdleTimeOut>%s</rsp:IdleTimeOut><rsp:InputStreams>stdin</rsp:InputStreams><rsp:OutputStreams>stdout stderr</rsp:OutputStreams></rsp:Shell>`,
		duration(idle)))
}

func (s *settings) deleteShell(shell string) []byte { return s.envelope(actDelete, shell, nil, "") }

// startCommand: with the console's mode, standard input would be a console's and not binary.
func (s *settings) startCommand(shell, line string) []byte {
	return s.envelope(shellURI+"/Command", shell, []string{"WINRS_CONSOLEMODE_STDIN", "FALSE", "WINRS_SKIP_CMD_SHELL", "FALSE"},
		`<rsp:CommandLine><rsp:Command>`+escape(line)+`</rsp:Command></rsp:CommandLine>`)
}

// sendInput puts a piece of standard input into the envelope that buffer has room for.
func (s *settings) sendInput(buffer []byte, shell, command string, data []byte, last bool) []byte {
	head, tail := s.around(shellURI+"/Send", shell, nil)
	buffer = append(buffer[:0], head...)
	buffer = fmt.Appendf(buffer, `<rsp:Send><rsp:Stream Name="stdin" CommandId="%s"`, escape(command))
	if last {
		buffer = append(buffer, ` End="true"`...)
	}
	buffer = base64.StdEncoding.AppendEncode(append(buffer, '>'), data)
	return append(append(buffer, `</rsp:Stream></rsp:Send>`...), tail...)
}

func (s *settings) receiveOutput(shell, command string) []byte {
	return s.envelope(shellURI+"/Receive", shell, []string{"WSMAN_CMDSHELL_OPTION_KEEPALIVE", "TRUE"},
		`<rsp:Receive><rsp:DesiredStream CommandId="`+escape(command)+`">stdout stderr</rsp:DesiredStream></rsp:Receive>`)
}

func (s *settings) signal(shell, command, code string) []byte {
	return s.envelope(shellURI+"/Signal", shell, nil, `<rsp:Signal CommandId="`+escape(command)+`"><rsp:Code>`+code+`</rsp:Code></rsp:Signal>`)
}

func duration(d time.Duration) string { return fmt.Sprintf("PT%.3fS", d.Seconds()) }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}

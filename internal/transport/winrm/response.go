package winrm

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"strings"

	"wsu.windows/internal/reason"
)

// answer is what of the host's envelopes is looked at. Names without their name spaces: the elements that we look for are unique.
type answer struct {
	Body struct {
		Fault   *fault `xml:"Fault"`
		Created struct {
			Selectors []struct {
				Name  string `xml:"Name,attr"`
				Value string `xml:",chardata"`
			} `xml:"ReferenceParameters>SelectorSet>Selector"`
		} `xml:"ResourceCreated"`
		ShellID   string   `xml:"Shell>ShellId"`
		CommandID string   `xml:"CommandResponse>CommandId"`
		Received  received `xml:"ReceiveResponse"`
	} `xml:"Body"`
}

type received struct {
	Streams []struct {
		Name string `xml:"Name,attr"`
		Data string `xml:",chardata"`
	} `xml:"Stream"`
	State struct {
		Name     string `xml:"State,attr"`
		ExitCode *int64 `xml:"ExitCode"`
	} `xml:"CommandState"`
}

// parse reads an envelope; a fault in it is the error.
func (s *settings) parse(raw []byte) (*answer, error) {
	a := &answer{}
	if err := xml.Unmarshal(raw, a); err != nil {
		return nil, s.invalid("its answer is no SOAP envelope")
	}
	if a.Body.Fault != nil {
		return nil, a.Body.Fault
	}
	return a, nil
}

func (s *settings) invalid(problem string) error {
	return reason.New(reason.HostOutputInvalid, s.object(), problem, "")
}

func (s *settings) shellOf(a *answer) (string, error) {
	for _, selector := range a.Body.Created.Selectors {
		if selector.Name == "ShellId" && selector.Value != "" {
			return selector.Value, nil
		}
	}
	if a.Body.ShellID != "" {
		return a.Body.ShellID, nil
	}
	return "", s.invalid("it does not say which shell it made")
}

// done reports the end of a command. An exit code has 32 bits, which Windows writes with or without a sign.
func (r *received) done() (code int, done bool) {
	if !strings.HasSuffix(r.State.Name, "/CommandState/Done") {
		return 0, false
	}
	if r.State.ExitCode == nil {
		return -1, true
	}
	return int(uint32(*r.State.ExitCode)), true //nolint:gosec // see above
}

// each gives the output, in order.
func (s *settings) each(r *received, take func(stream string, data []byte) error) error {
	for _, stream := range r.Streams {
		text := strings.TrimSpace(stream.Data)
		if text == "" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return s.invalid(fmt.Sprintf("the output %q is not base64", clean(stream.Name)))
		}
		if err := take(stream.Name, data); err != nil {
			return err
		}
	}
	return nil
}

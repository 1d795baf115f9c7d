package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"wsu.windows/internal/reason"
)

const csrPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// CSR is a CertificateSigningRequest of certificates.k8s.io/v1, as far as a requester needs it.
type CSR struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   Metadata  `json:"metadata"`
	Spec       CSRSpec   `json:"spec"`
	Status     CSRStatus `json:"status"`
}

// Metadata is an object's name.
type Metadata struct {
	Name string `json:"name"`
}

// CSRSpec is what is asked for. Request is PEM.
type CSRSpec struct {
	Request    []byte   `json:"request"`
	SignerName string   `json:"signerName"`
	Usages     []string `json:"usages"`
}

// CSRStatus is what became of it. Certificate is PEM.
type CSRStatus struct {
	Conditions  []CSRCondition `json:"conditions,omitempty"`
	Certificate []byte         `json:"certificate,omitempty"`
}

// CSRCondition is of the type Approved, Denied or Failed.
type CSRCondition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Refused gives the condition Denied or Failed, if there is one.
func (c *CSR) Refused() (CSRCondition, bool) {
	for _, condition := range c.Status.Conditions {
		if condition.Type == "Denied" || condition.Type == "Failed" {
			return CSRCondition{condition.Type, printable(condition.Reason), printable(condition.Message)}, true
		}
	}
	return CSRCondition{}, false
}

// Settled reports whether nothing more will become of it: issued, denied or failed.
func (c *CSR) Settled() bool {
	_, refused := c.Refused()
	return refused || len(c.Status.Certificate) > 0
}

// CreateCSR submits a request; ErrExists where the name is taken.
func (c *Client) CreateCSR(ctx context.Context, name string, spec CSRSpec) error {
	request := CSR{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest", Metadata: Metadata{Name: name}, Spec: spec}
	return c.do(ctx, http.MethodPost, csrPath, request, nil)
}

// GetCSR reads a request; ErrNotFound where there is none.
func (c *Client) GetCSR(ctx context.Context, name string) (*CSR, error) {
	csr := &CSR{}
	if err := c.do(ctx, http.MethodGet, csrPath+"/"+url.PathEscape(name), nil, csr); err != nil {
		return nil, err
	}
	return csr, nil
}

// WaitCSR watches a request until it is settled or the wait is over, and gives it as it was seen last. A watch that breaks off is
// begun again; ErrNotFound where the request was deleted.
func (c *Client) WaitCSR(ctx context.Context, name string, wait time.Duration) (*CSR, error) {
	deadline := time.Now().Add(wait)
	for {
		csr, err := c.GetCSR(ctx, name)
		if err != nil {
			return nil, err
		}
		left := time.Until(deadline)
		if csr.Settled() || left <= 0 {
			return csr, nil
		}
		started := time.Now()
		if err := c.watchCSR(ctx, name, left); err != nil {
			return nil, err
		}
		if err := pause(ctx, time.Second-time.Since(started)); err != nil { // a server that ends every watch at once is not hammered
			return nil, err
		}
	}
}

// watchCSR returns when the request is settled or gone, when the time is over, or when the server ends the watch.
func (c *Client) watchCSR(ctx context.Context, name string, wait time.Duration) error {
	watching, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	query := url.Values{
		"watch": {"1"}, "fieldSelector": {"metadata.name=" + name}, "timeoutSeconds": {fmt.Sprint(int(wait.Seconds()) + 1)},
	}
	response, err := c.send(watching, http.MethodGet, csrPath+"?"+query.Encode(), nil)
	if err != nil {
		if watching.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(response.Body, maxBody))
		return c.statusError(response.StatusCode, raw)
	}
	return c.readEvents(ctx, &boundedReader{response.Body, 0}, name)
}

func (c *Client) readEvents(ctx context.Context, body *boundedReader, name string) error {
	decoder := json.NewDecoder(body)
	for {
		var event struct {
			Type   string `json:"type"`
			Object CSR    `json:"object"`
		}
		body.read = 0
		if err := decoder.Decode(&event); err != nil {
			if ctx.Err() != nil {
				return reason.Wrap(reason.Interrupted, "CSR "+name, ctx.Err(), "")
			}
			return nil // the watch ended, however it did: the caller looks and begins another one
		}
		if event.Type == "DELETED" || event.Type == "ERROR" || event.Object.Settled() {
			return nil
		}
	}
}

// boundedReader fails when more than maxBody is read without a whole event in it.
type boundedReader struct {
	io.Reader
	read int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.read > maxBody {
		return 0, errors.New("an event of the watch is too large")
	}
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return reason.Wrap(reason.Interrupted, "waiting", ctx.Err(), "")
	case <-timer.C:
		return nil
	}
}

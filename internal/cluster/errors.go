package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"wsu.windows/internal/reason"
)

// explain turns what a request failed with into a reason. The cause stays in the chain, so that IsNotFound and IsConflict hold.
// what is a path, or a resource and a name.
func (c *Client) explain(err error, verb, what string) error {
	server := "API server " + c.Server
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %s: %w", verb, what, err)
	case apierrors.IsForbidden(err):
		return caused(err, reason.New(reason.APIForbidden, what, "the cluster refuses it: "+serverWords(err), permission(err, verb, what)))
	case apierrors.IsUnauthorized(err):
		return caused(err, reason.New(reason.APIForbidden, server, "it does not accept the credentials of the kubeconfig (401)", "Log in again, or use another kubeconfig."))
	case apierrors.IsNotFound(err):
		return caused(err, reason.New(reason.ClusterUnsupported, what, "there is no such object in the cluster", ""))
	case untrusted(err):
		return caused(err, reason.New(reason.APIUntrusted, server, tlsWords(err), ""))
	case unreachable(err):
		return caused(err, reason.New(reason.APIUnreachable, server, networkWords(err), ""))
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= 500 {
		return caused(err, reason.New(reason.APIUnreachable, server, fmt.Sprintf("it answers %d: %s", status.Status().Code, serverWords(err)), "Check the API server and its etcd."))
	}
	return caused(err, reason.New(reason.Internal, verb+" "+what, serverWords(err), ""))
}

func caused(err error, e *reason.Error) error {
	e.Err = err
	return e
}

// serverWords bounds the server's message: it may quote what strangers wrote.
func serverWords(err error) string {
	text := err.Error()
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "..."
	}
	return text
}

// permission says which rule is missing, in RBAC's words: out of the server's details, or out of the path.
func permission(err error, verb, what string) string {
	resource, name, namespace := resourceOf(what)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind != "" {
		details := status.Status().Details
		resource, name = details.Kind, details.Name
		if details.Group != "" {
			resource += "." + details.Group
		}
	}
	text := fmt.Sprintf("Grant the account of the kubeconfig the verb %s on %s", verb, resource)
	if name != "" {
		text += " " + name
	}
	if namespace != "" {
		text += " in the namespace " + namespace
	}
	return text + "."
}

// resourceOf reads a path as /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME, any of whose parts may be missing.
func resourceOf(path string) (resource, name, namespace string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	group := ""
	switch {
	case parts[0] == "apis" && len(parts) > 3:
		group, parts = parts[1], parts[3:]
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	resource = parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 { // a subresource
		resource += "/" + parts[2]
	}
	if group != "" {
		resource += "." + group
	}
	return resource, name, namespace
}

func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid)
}

func tlsWords(err error) string {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &name):
		return "its certificate is for another name: " + name.Error()
	case errors.As(err, &authority):
		return "its certificate is not signed by the authority in the kubeconfig"
	}
	return "its certificate is not valid: " + innermost(err)
}

func unreachable(err error) bool {
	var network net.Error
	var operation *net.OpError
	var record tls.RecordHeaderError
	var address *url.Error
	return errors.As(err, &network) || errors.As(err, &operation) || errors.As(err, &record) || errors.As(err, &address) ||
		errors.Is(err, context.DeadlineExceeded)
}

func networkWords(err error) string {
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &record):
		return "what answers there does not speak TLS"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("it did not answer within %s", RequestTimeout)
	}
	return "it cannot be reached: " + innermost(err)
}

// innermost takes the URL and the verb off, which the object says already.
func innermost(err error) string {
	var address *url.Error
	for errors.As(err, &address) {
		err = address.Err
	}
	return err.Error()
}

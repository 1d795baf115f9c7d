// Package cluster reads and changes what WSU needs of a cluster, whatever its flavour: connections with errors that say what
// to do, nodes, and requests. What only one flavour has is in a package below it.
package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
)

const (
	// RequestTimeout bounds one request that is no watch, so that a silent server is noticed.
	RequestTimeout = 20 * time.Second
	// unauthorizedRetry is the wait before a read that was answered 401 is tried once more: an API server that is starting,
	// or one of several that has not yet seen a new token, says that for a moment.
	unauthorizedRetry = 500 * time.Millisecond
)

// silence turns client-go's own log off: what it would say belongs into results, if anywhere.
var silence = sync.OnceFunc(func() { klog.SetLogger(klog.Logger{}) })

// Client is a connection to the API server. It knows only the few types that WSU uses: a whole clientset would double the
// size of the binary.
type Client struct {
	core         *rest.RESTClient
	certificates *rest.RESTClient
	// Server is the API server's URL.
	Server string
}

// Connect makes a client out of a kubeconfig; see LoadKubeconfig for the path. It does not talk to the server yet.
func Connect(kubeconfig string) (*Client, error) {
	config, err := LoadKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	return NewClient(config)
}

// NewClient makes a client out of a configuration.
func NewClient(config *rest.Config) (*Client, error) {
	silence()
	config = rest.CopyConfig(config)
	config.UserAgent = "wsu/" + version.Release
	config.QPS = -1 // the server has priority and fairness; throttling here only delays a node
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return retryUnauthorized{next} })
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, reason.Wrap(reason.KubeconfigInvalid, "kubeconfig", err, "")
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, certificatesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	group := func(gv schema.GroupVersion, path string) (*rest.RESTClient, error) {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &gv, path, codecs
		client, err := rest.RESTClientForConfigAndClient(c, transport)
		if err != nil {
			return nil, reason.Wrap(reason.KubeconfigInvalid, "kubeconfig", err, "")
		}
		return client, nil
	}
	client := &Client{Server: config.Host}
	if client.core, err = group(corev1.SchemeGroupVersion, "/api"); err != nil {
		return nil, err
	}
	if client.certificates, err = group(certificatesv1.SchemeGroupVersion, "/apis"); err != nil {
		return nil, err
	}
	return client, nil
}

// Read gets a JSON document by its path. A missing one is an error for which IsNotFound holds.
func (c *Client) Read(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	content, err := c.core.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, c.explain(err, "get", path)
	}
	return content, nil
}

// Now is the API server's clock, read off the Date of an answer; creation times are in it.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.core.Get().AbsPath("/version").URL().String(), "/"), nil)
	if err != nil {
		return time.Time{}, c.explain(err, "get", "/version")
	}
	response, err := c.core.Client.Do(request)
	if err != nil {
		return time.Time{}, c.explain(err, "get", "/version")
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16))
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, reason.New(reason.APIUnreachable, "API server "+c.Server, "it answers without a date", "Check what stands between the control host and the API server.")
	}
	return now, nil
}

// IsNotFound reports whether an object, or the kind itself, does not exist.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }

// IsConflict reports whether an object was changed by somebody else meanwhile.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// retryUnauthorized repeats a read once that was answered 401. Watches are reads too, and their 401 comes before any event.
type retryUnauthorized struct{ next http.RoundTripper }

func (r retryUnauthorized) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusUnauthorized || request.Method != http.MethodGet {
		return response, err
	}
	timer := time.NewTimer(unauthorizedRetry)
	defer timer.Stop()
	select {
	case <-request.Context().Done():
		return response, nil
	case <-timer.C:
	}
	_ = response.Body.Close()
	return r.next.RoundTrip(request)
}

// listOptions selects one object by a field.
func listOptions(selector string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: selector}
}

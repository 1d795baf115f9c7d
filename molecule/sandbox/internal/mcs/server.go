// Package mcs is the Machine Config Server: it serves a pool's Ignition to machines that have no identity yet, as the one of an
// OpenShift 5.0 cluster does.
package mcs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// source reads a pool's configuration.
type source interface {
	read(ctx context.Context, pool string) (*served, error)
}

type handler struct{ source source }

// NewServer serves on address. HTTP/1.1 only, as the real one since it was hardened against rapid resets.
func NewServer(address string, cluster Cluster) *http.Server {
	return &http.Server{
		Addr:              address,
		Handler:           newHandler(cluster),
		ReadHeaderTimeout: 30 * time.Second,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
}

func newHandler(source source) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/config/", handler{source})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if allowed(w, r) {
			empty(w, http.StatusOK)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { empty(w, http.StatusNotFound) })
	return mux
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r) {
		return
	}
	pool := path.Base(r.URL.Path)
	if r.URL.Path == "/config/" || strings.Count(strings.TrimSuffix(r.URL.Path, "/"), "/") != 2 {
		empty(w, http.StatusBadRequest)
		return
	}
	body, err := h.render(r.Context(), pool, r.Header.Get("Accept"))
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		log.Printf("pool %s for %s: %v", pool, r.RemoteAddr, err)
		empty(w, refused.status)
	case err != nil:
		log.Printf("pool %s for %s: %v", pool, r.RemoteAddr, err)
		empty(w, http.StatusInternalServerError)
	default:
		log.Printf("pool %s served to %s, %d bytes", pool, r.RemoteAddr, len(body))
		write(w, r, body)
	}
}

func (h handler) render(ctx context.Context, pool, accept string) ([]byte, error) {
	version, err := negotiate(accept)
	if err != nil {
		return nil, err
	}
	served, err := h.source.read(ctx, pool)
	if err != nil {
		return nil, err
	}
	native, err := served.ignition()
	if err != nil {
		return nil, err
	}
	return convert(native, version)
}

func allowed(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	empty(w, http.StatusMethodNotAllowed)
	return false
}

func empty(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

func write(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		log.Print(fmt.Errorf("answer to %s: %w", r.RemoteAddr, err))
	}
}

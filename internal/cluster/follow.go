package cluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	watchtools "k8s.io/client-go/tools/watch"

	"wsu.windows/internal/reason"
)

// relistAfter is the wait between two attempts to list, where the server was away or the watch had expired.
const relistAfter = time.Second

// pageSize bounds one answer of a list, in objects.
const pageSize = 500

// Follower is told of the objects of one kind: all that exist, then every change.
type Follower[T runtime.Object] struct {
	// See gets an object, or with deleted its last state.
	See func(ctx context.Context, object T, deleted bool) error
	// Listed is called after the first list, and after each later one that a broken watch made necessary: names holds what exists.
	Listed func(ctx context.Context, names map[string]bool) error
	// Done is asked after the list and after each change; true ends the following.
	Done func() bool
}

// source lists and watches one resource.
type source struct {
	client   *Client
	rest     rest.Interface
	resource string
	selector string
	newList  func() runtime.Object
}

// follow runs until Done, an error of the follower, or the end of ctx. A server that is away is waited for; then the last error
// that it gave, if any, is joined to the context's.
func follow[T runtime.Object](ctx context.Context, s source, f Follower[T]) error {
	var last error
	for {
		done, err := followOnce(ctx, s, f)
		if done || (err != nil && !transient(err)) {
			return err
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-time.After(relistAfter):
		}
	}
}

// followOnce lists and then watches until the watch cannot go on.
func followOnce[T runtime.Object](ctx context.Context, s source, f Follower[T]) (done bool, err error) {
	version, err := listAll(ctx, s, f)
	if err != nil {
		return false, err
	}
	if f.Done() {
		return true, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, s)
	if err != nil {
		return false, err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			object, ok := event.Object.(T)
			if !ok {
				continue
			}
			if err := f.See(ctx, object, event.Type == watch.Deleted); err != nil {
				return false, err
			}
		case watch.Error:
			if err := apierrors.FromObject(event.Object); !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
				return false, s.client.explain(err, "watch", s.resource)
			}
			return false, nil
		}
		if f.Done() {
			return true, nil
		}
	}
	return false, ctx.Err()
}

func listAll[T runtime.Object](ctx context.Context, s source, f Follower[T]) (version string, err error) {
	names := map[string]bool{}
	options := metav1.ListOptions{FieldSelector: s.selector, Limit: pageSize}
	for {
		list, err := s.list(ctx, options)
		if err != nil {
			return "", err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(T)
			if !ok {
				return nil
			}
			if accessor, err := meta.Accessor(object); err == nil {
				names[accessor.GetName()] = true
			}
			return f.See(ctx, object, false)
		})
		if err != nil {
			return "", err
		}
		about, err := meta.ListAccessor(list)
		if err != nil {
			return "", err
		}
		version, options.Continue = about.GetResourceVersion(), about.GetContinue()
		if options.Continue == "" {
			break
		}
	}
	if f.Listed != nil {
		return version, f.Listed(ctx, names)
	}
	return version, nil
}

func (s source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	list := s.newList()
	err := s.rest.Get().Resource(s.resource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
	return list, s.client.explain(err, "list", s.resource)
}

// WatchWithContext is what client-go's RetryWatcher needs: it reconnects by itself and goes on after the last change.
func (s source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.FieldSelector = true, s.selector
	return s.rest.Get().Resource(s.resource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

// transient errors of a list are waited out: the server is away, is starting or has too much to do.
func transient(err error) bool {
	return reason.Is(err, reason.APIUnreachable) || apierrors.IsTooManyRequests(err) || apierrors.IsResourceExpired(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

func fieldIs(field, value string) string { return fields.OneTermEqualSelector(field, value).String() }

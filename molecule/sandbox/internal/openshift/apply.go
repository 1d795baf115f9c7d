package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const fieldManager = "wsu-sandbox"

// definitions are the resources that the sandbox installs out of OpenShift's hundred and more.
var definitions = []string{
	"clusterversions.config.openshift.io", "clusteroperators.config.openshift.io", "infrastructures.config.openshift.io",
	"dnses.config.openshift.io", "networks.config.openshift.io", "proxies.config.openshift.io", "featuregates.config.openshift.io",
	"imagedigestmirrorsets.config.openshift.io", "imagetagmirrorsets.config.openshift.io", "networks.operator.openshift.io",
	"machineconfigs.machineconfiguration.openshift.io", "machineconfigpools.machineconfiguration.openshift.io",
	"controllerconfigs.machineconfiguration.openshift.io", "kubeletconfigs.machineconfiguration.openshift.io",
}

const featureSetAnnotation = "release.openshift.io/feature-set"

// Installer puts OpenShift's objects into the API server.
type Installer struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
}

// NewInstaller talks to the API server that the kubeconfig names.
func NewInstaller(kubeconfig string) (*Installer, error) {
	settings, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	settings.QPS, settings.Burst = 200, 200
	settings.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return &Installer{client: client, discovery: finder}, nil
}

// Definitions installs the CustomResourceDefinitions that lie in the source of OpenShift's API module, and waits until the API
// server serves them. It returns how many.
func (i *Installer) Definitions(ctx context.Context, apiModuleDir string) (int, error) {
	found := map[string]map[string]any{}
	for _, group := range []string{"config", "operator", "machineconfiguration"} {
		if err := readDefinitions(filepath.Join(apiModuleDir, group, "v1", "zz_generated.crd-manifests"), found); err != nil {
			return 0, err
		}
	}
	for _, name := range definitions {
		if found[name] == nil {
			return 0, fmt.Errorf("openshift CRDs: %s has no %s: %w", apiModuleDir, name, fs.ErrNotExist)
		}
	}
	resource := i.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, name := range definitions {
		if err := apply(ctx, resource, found[name], ""); err != nil {
			return 0, err
		}
	}
	for _, name := range definitions {
		if err := poll(ctx, "CustomResourceDefinition "+name, func() error { return established(ctx, resource, name) }); err != nil {
			return 0, err
		}
	}
	return len(definitions), nil
}

// readDefinitions picks, of the variants that a resource has for feature sets and for hosted control planes, the one that an
// ordinary cluster has.
func readDefinitions(dir string, found map[string]map[string]any) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("openshift CRDs: %w", err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".crd.yaml") || strings.Contains(file.Name(), "-Hypershift") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return fmt.Errorf("openshift CRDs: %w", err)
		}
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			return fmt.Errorf("openshift CRDs: %s: %w", file.Name(), err)
		}
		if sets, limited := crd.GetAnnotations()[featureSetAnnotation]; limited && !slices.Contains(strings.Split(sets, ","), "Default") {
			continue
		}
		if slices.Contains(definitions, crd.GetName()) {
			found[crd.GetName()] = crd.Object
		}
	}
	return nil
}

func established(ctx context.Context, resource dynamic.ResourceInterface, name string) error {
	crd, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == "Established" && fields["status"] == "True" {
			return nil
		}
	}
	return errors.New("not established")
}

// Objects applies every object of the cluster, with its status, and waits until node-bootstrapper has its token.
func (i *Installer) Objects(ctx context.Context, cluster Cluster) (int, error) {
	objects, err := cluster.Objects(time.Now())
	if err != nil {
		return 0, err
	}
	mapper, err := i.mapper(ctx)
	if err != nil {
		return 0, err
	}
	for _, one := range objects {
		resource, err := i.resource(mapper, &unstructured.Unstructured{Object: one})
		if err != nil {
			return 0, err
		}
		if err := applyWithStatus(ctx, resource, one); err != nil {
			return 0, err
		}
	}
	secrets := i.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("openshift-machine-config-operator")
	return len(objects), poll(ctx, "Secret node-bootstrapper-token", func() error {
		secret, err := secrets.Get(ctx, "node-bootstrapper-token", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if token, _, _ := unstructured.NestedString(secret.Object, "data", "token"); token == "" {
			return errors.New("the controller manager has not written the token yet")
		}
		return nil
	})
}

func (i *Installer) mapper(ctx context.Context) (meta.RESTMapper, error) {
	var groups []*restmapper.APIGroupResources
	err := poll(ctx, "API discovery", func() (err error) {
		groups, err = restmapper.GetAPIGroupResources(i.discovery)
		return err
	})
	return restmapper.NewDiscoveryRESTMapper(groups), err
}

func (i *Installer) resource(mapper meta.RESTMapper, one *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := one.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind.Kind, one.GetName(), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return i.client.Resource(mapping.Resource).Namespace(one.GetNamespace()), nil
	}
	return i.client.Resource(mapping.Resource), nil
}

// applyWithStatus applies spec and status, each through its own door: a status subresource ignores everything else, and
// the main resource ignores the status. Kinds without the subresource take both at once.
func applyWithStatus(ctx context.Context, resource dynamic.ResourceInterface, one map[string]any) error {
	if err := apply(ctx, resource, one, ""); err != nil {
		return err
	}
	if _, has := one["status"]; !has {
		return nil
	}
	partial := map[string]any{"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": one["metadata"], "status": one["status"]}
	err := apply(ctx, resource, partial, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func apply(ctx context.Context, resource dynamic.ResourceInterface, one map[string]any, subresource string) error {
	u := unstructured.Unstructured{Object: one}
	body, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict}
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	if _, err := resource.Patch(ctx, u.GetName(), types.ApplyPatchType, body, options, subresources...); err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// poll tries until it succeeds; a minute is far more than any of these takes.
func poll(ctx context.Context, what string, try func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

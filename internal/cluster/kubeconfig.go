package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"wsu.windows/internal/reason"
)

const kubeconfigRemedy = "Set openshift_kubeconfig_path to a kubeconfig of a cluster administrator."

// LoadKubeconfig reads the kubeconfig at path, or where path is empty the files that KUBECONFIG names, or ~/.kube/config. Errors
// are kubeconfig_missing and kubeconfig_invalid, and api_untrusted for one that turns verification off.
func LoadKubeconfig(path string) (*rest.Config, error) {
	files, where := kubeconfigFiles(path)
	if len(files) == 0 {
		return nil, reason.New(reason.KubeconfigMissing, where, "there is no such file", kubeconfigRemedy)
	}
	for _, file := range files {
		if err := readable(file); err != nil {
			return nil, err
		}
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: files}
	loaded, err := rules.Load()
	object := "kubeconfig " + strings.Join(files, ", ")
	if err != nil {
		// The parser's own words may quote the file, and the file holds credentials.
		return nil, reason.New(reason.KubeconfigInvalid, object, "it is not a kubeconfig in YAML or JSON", "")
	}
	if err := checkContext(object, loaded); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, reason.Wrap(reason.KubeconfigInvalid, object, err, "")
	}
	if config.Insecure {
		return nil, reason.New(reason.APIUntrusted, object, "insecure-skip-tls-verify is set, so that anybody could answer in the API server's place",
			"Put the cluster's CA into the kubeconfig (certificate-authority-data) and remove insecure-skip-tls-verify.")
	}
	if strings.HasPrefix(config.Host, "http://") {
		return nil, reason.New(reason.APIUntrusted, object, "its server is reached without TLS", "Use the API server's https address.")
	}
	return config, nil
}

// kubeconfigFiles gives the files to read and the words for what was looked for.
func kubeconfigFiles(path string) (files []string, where string) {
	if path != "" {
		return []string{path}, path
	}
	if list := os.Getenv("KUBECONFIG"); list != "" {
		for _, file := range filepath.SplitList(list) {
			if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
				files = append(files, file)
			}
		}
		return files, "kubeconfig KUBECONFIG=" + list
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, "kubeconfig ~/.kube/config"
	}
	file := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Sprintf("kubeconfig %s (openshift_kubeconfig_path and KUBECONFIG are not set)", file)
	}
	return []string{file}, file
}

func readable(file string) error {
	info, err := os.Stat(file)
	object := "kubeconfig " + file
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reason.New(reason.KubeconfigMissing, object, "there is no such file", kubeconfigRemedy)
	case err == nil && info.IsDir():
		return reason.New(reason.KubeconfigMissing, object, "it is a folder", kubeconfigRemedy)
	case err == nil:
		var content *os.File
		if content, err = os.Open(file); err == nil {
			return content.Close()
		}
	}
	return reason.New(reason.KubeconfigMissing, object, "it cannot be read: "+errors.Unwrap(err).Error(), kubeconfigRemedy)
}

func checkContext(object string, loaded *clientcmdapi.Config) error {
	invalid := func(problem string) error { return reason.New(reason.KubeconfigInvalid, object, problem, "") }
	if loaded.CurrentContext == "" {
		return invalid("it has no current-context")
	}
	current, ok := loaded.Contexts[loaded.CurrentContext]
	if !ok {
		return invalid(fmt.Sprintf("its current-context %q does not exist in it", loaded.CurrentContext))
	}
	if server, ok := loaded.Clusters[current.Cluster]; !ok || server.Server == "" {
		return invalid(fmt.Sprintf("the cluster %q of its current context has no server", current.Cluster))
	}
	if _, ok := loaded.AuthInfos[current.AuthInfo]; !ok {
		return invalid(fmt.Sprintf("the user %q of its current context does not exist in it", current.AuthInfo))
	}
	return nil
}

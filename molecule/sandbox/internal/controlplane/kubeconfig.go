package controlplane

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes a kubeconfig with everything inside it, readable by its owner alone.
func (c ControlPlane) writeKubeconfig(file, user, certFile, keyFile string) error {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	kubeconfig := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"sandbox": {Server: c.Config.APIURL(), CertificateAuthorityData: c.CAs.APIServer.PEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: cert, ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{user: {Cluster: "sandbox", AuthInfo: user}},
		CurrentContext: user,
	}
	if err := clientcmd.WriteToFile(kubeconfig, file); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	return nil
}

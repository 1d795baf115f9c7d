package cluster

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const csrResource = "certificatesigningrequests"

func (c *Client) csrSource(signer string) source {
	return source{
		client: c, rest: c.certificates, resource: csrResource, selector: fieldIs("spec.signerName", signer),
		newList: func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
	}
}

// FollowCSRs follows the CSRs of one signer.
func (c *Client) FollowCSRs(ctx context.Context, signer string, f Follower[*certificatesv1.CertificateSigningRequest]) error {
	return follow(ctx, c.csrSource(signer), f)
}

// EachCSR looks at the CSRs of one signer that exist.
func (c *Client) EachCSR(ctx context.Context, signer string, see func(*certificatesv1.CertificateSigningRequest)) error {
	_, err := listAll(ctx, c.csrSource(signer), Follower[*certificatesv1.CertificateSigningRequest]{
		See: func(_ context.Context, csr *certificatesv1.CertificateSigningRequest, _ bool) error {
			see(csr)
			return nil
		},
	})
	return err
}

// CSR reads one CSR.
func (c *Client) CSR(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	csr := &certificatesv1.CertificateSigningRequest{}
	err := c.certificates.Get().Resource(csrResource).Name(name).Do(ctx).Into(csr)
	return csr, c.explain(err, "get", csrResource+"/"+name)
}

// ApproveCSR adds an approval to exactly the CSR that was read: if it changed meanwhile, IsConflict holds for the error.
func (c *Client) ApproveCSR(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, why, message string) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: "True", Reason: why, Message: message, LastUpdateTime: metav1.Now(),
	})
	err := c.certificates.Put().Resource(csrResource).Name(csr.Name).SubResource("approval").Body(approved).Do(ctx).Error()
	return c.explain(err, "update", csrResource+"/approval "+csr.Name)
}

// DeleteCSR deletes exactly the CSR that was read.
func (c *Client) DeleteCSR(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &csr.UID}}
	err := c.certificates.Delete().Resource(csrResource).Name(csr.Name).Body(&options).Do(ctx).Error()
	return c.explain(err, "delete", csrResource+"/"+csr.Name)
}

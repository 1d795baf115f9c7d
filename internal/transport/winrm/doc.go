// Package winrm reaches Windows hosts over WinRM: WS-Management with Microsoft's remote shell (MS-WSMV), with the variables of Ansible's own
// winrm connection.
//
//	settings.go    what the inventory says, checked
//	dial.go        the TCP or TLS connection and its certificate
//	channel.go     one authenticated HTTP connection: authentication once, then sealed requests, one after the other
//	ntlm.go kerberos.go gsswrap.go    the two logins that seal messages
//	multipart.go   the form of a sealed message (MS-WSMV 2.2.9.1)
//	soap.go response.go fault.go    the six messages that a remote shell needs, and what comes back
//	connection.go run.go first.go    what callers see
//
// The password goes over the line only with Basic, and Basic only inside TLS. NTLM and Kerberos seal every message where there is no TLS.
//
// The messages are written here and not taken from github.com/masterzen/winrm: there, standard input is in console mode, errors of a
// write are lost, every sealed message logs in again, and the settings of TLS do not reach that login. What would remain is a template of
// six envelopes.
package winrm

package collect

import "regexp"

// secrets are what must not leave the machine wherever it stands: private keys, bearer and bootstrap tokens, JSON Web Tokens, passwords in
// URLs, and the values of fields that are called like secrets.
var secrets = []struct {
	pattern *regexp.Regexp
	put     string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`), "(private key removed)"},
	// Of a log that is cut at its beginning, the key's first line may be gone.
	{regexp.MustCompile(`(?s)\A[A-Za-z0-9+/=\s]*-----END [A-Z ]*PRIVATE KEY-----`), "(private key removed)"},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), "(token removed)"},
	{regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?(?:basic|bearer)\s+)[^\s"',;]+`), "${1}(removed)"},
	{regexp.MustCompile(`(?i)(--?[\w-]*(?:password|secret|token)\s+)[^\s"']{4,}`), "${1}(removed)"},
	{regexp.MustCompile(`(?i)(\\["'][\w-]*(?:password|secret|token|key-data)\\["']\s*:\s*\\["'])[^\\\s]{4,}`), "${1}(removed)"},
	{regexp.MustCompile(`(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}(token removed)"},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), "(bootstrap token removed)"},
	{regexp.MustCompile(`(://[^/\s:@"']*:)[^/\s@"']+@`), "${1}(removed)@"},
	{regexp.MustCompile(`(?i)(["']?[\w-]*(?:password|passwd|passphrase|secret|token|client-key-data|private-?key|auth)["']?\s*[:=]\s*["']?)[^\s"',;}]{4,}`), "${1}(removed)"},
}

// redact takes secrets out of a text.
func redact(text []byte) []byte {
	for _, secret := range secrets {
		text = secret.pattern.ReplaceAll(text, []byte(secret.put))
	}
	return text
}

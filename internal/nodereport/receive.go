package nodereport

// Receive is printed by `wmcb receive`.
type Receive struct {
	Header
	// Present are the contents (SHA-256) that are in the store, verified; Missing those that are not.
	Present []string  `json:"present"`
	Missing []Missing `json:"missing"`
	// Others are further contents of the store, to which differences can be made.
	Others []Other `json:"others"`
	// Received are those that this run has brought, Bytes how many bytes of them, before compression.
	Received []string `json:"received"`
	Bytes    int64    `json:"bytes"`
	// Moved is true where the temporary copy of wmcb.exe that ran was moved there, and its folder is gone.
	Moved bool `json:"moved,omitempty"`
	// SHA256 is the digest of this wmcb.exe, where a plan was asked for.
	SHA256 string `json:"sha256,omitempty"`
	// Installed is true where <install>\wmcb.exe is this wmcb.exe.
	Installed bool `json:"installed"`
}

// Missing is a content that is not there, or not whole: the chunks in the ranges Have, [first, behind the last), need not be sent again.
type Missing struct {
	SHA256 string   `json:"sha256"`
	Have   [][2]int `json:"have,omitempty"`
}

// Other is a content by its digest, Size in bytes.
type Other struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Package drift names how a thing on a machine differs from what it shall be.
package drift

// Missing is what is seen of a thing, or of a field, that is not there.
const Missing = "it is missing"

// Difference is one way in which a thing differs. The texts hold no secrets.
type Difference struct {
	// Field is what of the thing differs; empty: the thing as a whole.
	Field string `json:"field,omitempty"`
	// Seen is what is there, a value or a phrase as "it is missing".
	Seen string `json:"seen"`
	// Desired is the value that it shall have; empty where Seen says it all, or where the value is a secret.
	Desired string `json:"desired,omitempty"`
}

// Whole is a difference of a thing as a whole.
func Whole(seen string) []Difference { return []Difference{{Seen: seen}} }

// String is a line for people: FIELD: SEEN, not DESIRED.
func (d Difference) String() string {
	text := d.Seen
	if d.Field != "" {
		text = d.Field + ": " + text
	}
	switch {
	case d.Desired == "":
		return text
	case d.Seen == Missing:
		return text + ", and shall be " + d.Desired
	}
	return text + ", not " + d.Desired
}

// Texts gives the lines of several.
func Texts(list []Difference) []string {
	var texts []string
	for _, d := range list {
		texts = append(texts, d.String())
	}
	return texts
}

package state

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// plainState and plainApplied have the fields without the methods.
type (
	plainState   State
	plainApplied Applied
)

// UnmarshalJSON keeps the fields that this release does not know.
func (s *State) UnmarshalJSON(raw []byte) (err error) {
	s.unknown, err = decode(raw, (*plainState)(s))
	return err
}

// MarshalJSON writes them again.
func (s *State) MarshalJSON() ([]byte, error) { return encode((*plainState)(s), s.unknown) }

// UnmarshalJSON keeps the fields that this release does not know.
func (a *Applied) UnmarshalJSON(raw []byte) (err error) {
	a.unknown, err = decode(raw, (*plainApplied)(a))
	return err
}

// MarshalJSON writes them again.
func (a *Applied) MarshalJSON() ([]byte, error) { return encode((*plainApplied)(a), a.unknown) }

// decode gives the fields of an object that into, a pointer to a struct, does not have.
func decode(raw []byte, into any) (map[string]json.RawMessage, error) {
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, err
	}
	var unknown map[string]json.RawMessage
	if err := json.Unmarshal(raw, &unknown); err != nil {
		return nil, err
	}
	for field := range reflect.TypeOf(into).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(unknown, name)
	}
	return unknown, nil
}

func encode(plain any, unknown map[string]json.RawMessage) ([]byte, error) {
	raw, err := json.Marshal(plain)
	if err != nil || len(unknown) == 0 {
		return raw, err
	}
	all := maps.Clone(unknown)
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

package ansible

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"wsu.windows/internal/reason"
)

// envelope makes the result's JSON object: the module's own data with changed, failed and msg, and on failure reason,
// object and remedy.
func envelope(env *Env, result Result, err error) map[string]any {
	document, encodeErr := fields(result.Data)
	if encodeErr != nil && err == nil {
		err = reason.Wrap(reason.Internal, "result", encodeErr, "")
	}
	document["changed"] = result.Changed
	document["failed"] = err != nil
	document["msg"] = result.Msg
	if len(result.Warnings) > 0 {
		document["warnings"] = result.Warnings
	}
	if len(result.Diff) > 0 && env.DiffMode {
		document["diff"] = result.Diff
	}
	if err == nil {
		return document
	}
	failure := explain(err)
	document["reason"] = failure.Code
	document["object"] = failure.Object
	document["remedy"] = failure.Remedy
	document["msg"] = message(env.Host, failure)
	return document
}

// explain gives every error a code.
func explain(err error) *reason.Error {
	var known *reason.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.Canceled):
		return reason.Wrap(reason.Interrupted, "", err, "")
	case errors.Is(err, context.DeadlineExceeded):
		return reason.Wrap(reason.Timeout, "", err, "")
	}
	return reason.Of(err)
}

// message says who, what is wrong, what to do.
func message(host string, failure *reason.Error) string {
	text := failure.Error()
	if host == "" || strings.HasPrefix(text, host+":") || strings.HasPrefix(text, "host "+host+":") {
		return text
	}
	return host + ": " + text
}

func fields(data any) (map[string]any, error) {
	document := map[string]any{}
	if data == nil {
		return document, nil
	}
	content, err := json.Marshal(data)
	if err != nil {
		return document, err
	}
	parsed, err := parseObject(content)
	if err != nil {
		return document, fmt.Errorf("%T is not an object: %w", data, err)
	}
	if _, taken := parsed["results"]; taken { // Ansible takes it for a loop's
		return document, errors.New("the key results belongs to Ansible")
	}
	return parsed, nil
}

// encode gives the document without secrets. The document is JSON already in all but name, so encoding it cannot fail.
func encode(document map[string]any, hide *redactor) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return []byte(`{"failed": true, "changed": false, "reason": "internal", "msg": "the result cannot be encoded"}`)
	}
	plain, err := parseObject(buffer.Bytes())
	if err != nil {
		return []byte(`{"failed": true, "changed": false, "reason": "internal", "msg": "the result cannot be encoded"}`)
	}
	buffer.Reset()
	_ = encoder.Encode(hide.value(plain))
	return bytes.TrimSpace(buffer.Bytes())
}

// Package reason is the one vocabulary of failures: every failure that a user can meet carries a stable code from
// the table in codes.go, so that scripts need not read prose. Both wmcb.exe and the Ansible modules use it.
package reason

import (
	"errors"
	"fmt"
)

// Error says what failed in the order in which a person needs it: which object, what is wrong with it, what to do.
type Error struct {
	// Code is one of the constants of this package.
	Code Code `json:"code"`
	// Object names the thing that is wrong: a host, a file, a CSR, a variable and its value.
	Object string `json:"object"`
	// Problem says what is wrong with it, in lower case and without a full stop.
	Problem string `json:"problem"`
	// Remedy says what to do next, as an imperative sentence.
	Remedy string `json:"remedy"`
	// Err is the cause, if there is one.
	Err error `json:"-"`
}

// New makes an Error. The remedy may be empty where the table's general remedy says it all.
func New(code Code, object, problem, remedy string) *Error {
	if remedy == "" {
		remedy = code.Remedy()
	}
	return &Error{Code: code, Object: object, Problem: problem, Remedy: remedy}
}

// Wrap makes an Error whose problem is the cause's own text.
func Wrap(code Code, object string, err error, remedy string) *Error {
	e := New(code, object, err.Error(), remedy)
	e.Err = err
	return e
}

// Error gives "object: problem. Remedy".
func (e *Error) Error() string {
	text := e.Problem
	if e.Object != "" {
		text = e.Object + ": " + text
	}
	if e.Remedy != "" {
		text = fmt.Sprintf("%s. %s", text, e.Remedy)
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of gives the first *Error in err's chain; any other error becomes one with the code Internal, and nil stays nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Problem: err.Error(), Remedy: Internal.Remedy(), Err: err}
}

// Is reports whether err's chain holds an Error with this code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

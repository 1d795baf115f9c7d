package reason

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// declared reads the constants of type Code off the source, so that none can be left out of the table.
func declared(t *testing.T) []Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	require.NoError(t, err)
	var codes []Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil || fmt.Sprint(spec.Type) != "Code" {
			return true
		}
		for _, value := range spec.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			require.NoError(t, err)
			codes = append(codes, Code(text))
		}
		return true
	})
	require.NotEmpty(t, codes)
	return codes
}

func TestEveryCodeStandsOnceInTheTableInItsOrderAndIsExplained(t *testing.T) {
	var listed []Code
	for _, entry := range Table {
		listed = append(listed, entry.Code)
		assert.NotEmpty(t, entry.Where, entry.Code)
		assert.NotEmpty(t, entry.Meaning, entry.Code)
		assert.False(t, strings.HasSuffix(entry.Meaning, "."), entry.Code)
		assert.True(t, strings.HasSuffix(entry.Remedy, "."), entry.Code)
		assert.Equal(t, strings.ToLower(string(entry.Code)), string(entry.Code))
	}
	assert.Equal(t, declared(t), listed)
}

func TestAnErrorSaysObjectProblemRemedyAndKeepsItsCause(t *testing.T) {
	cause := errors.New("no route to host")
	err := fmt.Errorf("preflight: %w", Wrap(HostUnreachable, "host w1", cause, ""))
	assert.Equal(t, "host w1: no route to host. "+HostUnreachable.Remedy(), Of(err).Error())
	assert.ErrorIs(t, err, cause)
	assert.True(t, Is(err, HostUnreachable))
	assert.False(t, Is(err, Internal))
	assert.Equal(t, Internal, Of(errors.New("x")).Code)
	assert.Nil(t, Of(nil))
	assert.Empty(t, Code("no_such").Remedy())
}

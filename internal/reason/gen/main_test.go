package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheDocumentIsCurrent(t *testing.T) {
	assert.NoError(t, run(filepath.Join("..", "..", "..", "docs", "reasons.md"), true))
}

func TestAStaleDocumentIsNoticed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "reasons.md")
	assert.Error(t, run(file, true))
	assert.NoError(t, run(file, false))
	assert.NoError(t, run(file, true))
}

package winservice

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

func FuzzCommandLineIsTakenApartAgain(f *testing.F) {
	f.Add("a b", `c\`, `d"e`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		args := []string{"x.exe", a, b, c}
		for _, arg := range args {
			if _, err := windows.UTF16FromString(arg); err != nil {
				t.Skip()
			}
			require.Equal(t, windows.EscapeArg(arg), escape(arg))
		}
	})
}

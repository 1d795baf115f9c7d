package winservice

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

func FuzzCommandLineIsTakenApartAgain(f *testing.F) {
	f.Add("a b", `c\`, `d"e`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		args := []string{"x.exe", a, b, c}
		for _, arg := range args {
			if _, err := windows.UTF16FromString(arg); err != nil || !utf8.ValidString(arg) {
				t.Skip("not a Windows string")
			}
		}
		apart, err := windows.DecomposeCommandLine(CommandLine(args))
		require.NoError(t, err)
		require.Equal(t, args, apart)
	})
}

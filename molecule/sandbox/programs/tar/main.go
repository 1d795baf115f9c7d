// Command tar unpacks an archive as the bsdtar of Windows does when it is called as `tar -x -f ARCHIVE [-C DIR]` (or -xf; ARCHIVE may be
// "-" for stdin; gzip is found by itself). It knows nothing else and says so.
package main

import (
	"fmt"
	"os"
)

func main() {
	options, err := parse(os.Args[1:])
	if err == nil {
		err = options.run(os.Stdin)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "tar.exe: Error opening archive: %v\r\n", err)
		os.Exit(1)
	}
}

// Command tell prints its arguments as JSON, or with the argument "sum" the SHA-256 of its stdin, or with "reboot" asks Windows for one.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "sum" {
		sum := sha256.New()
		if _, err := io.Copy(sum, os.Stdin); err != nil {
			panic(err)
		}
		fmt.Printf("%x\n", sum.Sum(nil))
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "reboot" {
		const planned = 0x80000000
		if err := windows.InitiateSystemShutdownEx(nil, nil, 0, true, true, planned); err != nil {
			panic(err)
		}
		return
	}
	json.NewEncoder(os.Stdout).Encode(os.Args[1:])
}

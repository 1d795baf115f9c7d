// Command exits is a kubelet that ends at once with an error, before the service control manager hears of it.
package main

import (
	"errors"

	"wsu.windows/tests/releases/broken"
)

func main() {
	broken.Start()
	broken.Fail(errors.New("this kubelet was made to exit at once"))
}

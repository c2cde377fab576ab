package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool/internal/fuzztest"
)

// FuzzConfig reads arbitrary bytes as the configuration file of a server: an error,
// or a configuration whose checks end, and which others reach only with credentials.
func FuzzConfig(f *testing.F) {
	whole, err := os.ReadFile("../../../../docs/serve.example.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, text := range []string{
		`{}`, `{"addr":":8080"}`, `{"dir":"a","broker":"redis://b"}`, `{"max_wait":"1m","max_body":1024,"metrics":false}`,
		`{"push":[{"queue":"q","url":"https://a.example/hook"}]}`, `{"credentials":[{"name":"a","hash":"","scopes":["read"]}]}`, `{"addr":"unix:/run/s"}`,
	} {
		f.Add([]byte(text))
	}
	file := filepath.Join(f.TempDir(), "spool.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		fuzztest.Bound(t, func() {
			c, err := Load(file)
			if err != nil || c.Check() != nil {
				return
			}
			if c.checkAddr() != nil {
				t.Fatalf("%q passes, and its address does not", b)
			}
		})
	})
}

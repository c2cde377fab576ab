package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolq/spool/server"
)

var update = flag.Bool("update", false, "rewrite the generated files")

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "spool.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file)
}

func TestAConfigurationThatCannotBeIsRefusedWithItsField(t *testing.T) {
	hash := server.HashSecret("x")
	for _, c := range []struct{ name, text, says string }{
		{"an unknown field", `{"adr":":80"}`, "/adr: there is no such field"},
		{"a field of another type", `{"max_body":"1M"}`, "/max_body: a JSON string does not fit here, it wants a whole number"},
		{"a bare number as a duration", `{"max_wait":60}`, `/max_wait: a JSON number does not fit here, it wants a duration as text`},
		{"two stores", `{"dir":"a","broker":"redis://b"}`, "dir and broker name two stores"},
		{"a certificate without its key", `{"tls_cert":"a"}`, "tls_cert and tls_key belong together"},
		{"client authorities without TLS", `{"client_cas":"a"}`, "client_cas needs tls_cert"},
		{"a file that is not there", `{"tls_cert":"nothing","tls_key":"nothing"}`, "tls_cert: there is no file"},
		{"a negative limit", `{"max_streams":-1}`, "max_streams is negative"},
		{"a tiny body", `{"max_body":10}`, "at least 1024"},
		{"an unknown format", `{"log_format":"xml"}`, "allowed are text and json"},
		{"an address without a port", `{"addr":"localhost"}`, "HOST:PORT"},
		{"a socket without a path", `{"addr":"unix:"}`, "path of the socket"},
		{"every address, unguarded", `{"addr":":8080"}`, "no credentials are asked for"},
		{"an address of a network, unguarded", `{"addr":"192.168.1.2:80"}`, "no credentials are asked for"},
		{"a credential without a hash", `{"credentials":[{"name":"a","hash":"","scopes":["read"]}]}`, `credentials[0] ("a"): hash is not a SHA-256 in 64 hexadecimal digits: make a secret and its hash with: spool credential a --scope read`},
		{"a credential without scopes", `{"credentials":[{"name":"a","hash":"` + hash + `","scopes":[]}]}`, "allows nothing"},
		{"an unknown scope", `{"credentials":[{"name":"a","hash":"` + hash + `","scopes":["admin"]}]}`, `scope "admin" is unknown`},
		{"a target without a queue", `{"push":[{"queue":"","url":"https://example.com"}]}`, "push[0]: queue is missing"},
		{"a target of two", `{"push":[{"queue":"q","url":"https://a.example"},{"queue":"q","url":"https://b.example"}]}`, "push[1]: there are two of the name push-q"},
		{"a secret that is nowhere", `{"push":[{"queue":"q","url":"https://a.example","secret_env":"SPOOL_TEST_NOTHING"}]}`, "push[0]: secret_env: the variable SPOOL_TEST_NOTHING is not set"},
		{"no JSON", `addr = 1`, "the file is not JSON"},
		{"half a file", `{"addr":`, "the file is not JSON"},
		{"no object", `[]`, "the file: a JSON array does not fit here"},
		{"a port that there is none of", `{"addr":"127.0.0.1:99999"}`, "addr is \"127.0.0.1:99999\": its port"},
		{"an audit log where there is no directory", `{"audit_log":"nothing/at/all.log"}`, "audit_log: there is no directory"},
		{"a host that is a URL", `{"hosts":["a.example","http://x"]}`, "hosts[1] is \"http://x\""},
		{"a host with a port", `{"hosts":["x:8080"]}`, "hosts[0] is \"x:8080\""},
		{"a host that is a pattern", `{"hosts":["*.example.com"]}`, "hosts[0] is"},
		{"a large payload", `{"max_payload":9000000}`, "max_payload is 9000000: at most 8388608"},
		{"a target of this machine", `{"push":[{"queue":"q","url":"http://127.0.0.1:80/x"}]}`, "push[0]: url leads to 127.0.0.1"},
		{"a target of this machine by its name", `{"push":[{"queue":"q","url":"http://localhost/x"}]}`, "push[0]: url leads to localhost"},
		{"a target of a private network", `{"push":[{"queue":"q","url":"http://[fd12::1]/x"}]}`, "push[0]: url leads to fd12::1"},
		{"a negative timeout", `{"push":[{"queue":"q","url":"https://a.example","timeout":"-1s"}]}`, "push[0]: timeout -1s is negative"},
		{"a negative concurrency", `{"push":[{"queue":"q","url":"https://a.example","concurrency":-1}]}`, "push[0]: concurrency -1 is negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := load(t, c.text)
			if err == nil {
				err = cfg.Check()
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q in it", err, c.says)
			}
		})
	}
}

func TestAConfigurationThatIsRight(t *testing.T) {
	hash := server.HashSecret("x")
	for _, text := range []string{
		`{}`, `{"hosts":["*"]}`, `{"hosts":["jobs.example.com","10.0.0.1","::1","my_host"]}`, `{"addr":"127.0.0.1:http"}`, `{"push":[{"queue":"q","url":"http://10.0.0.1/x","allow_private":true}]}`,
		`{"addr":"[::1]:0"}`, `{"addr":"localhost:8080","dir":"jobs"}`, `{"addr":"unix:/run/spool.sock"}`, `{"addr":"systemd"}`,
		`{"addr":":8080","credentials":[{"name":"a","hash":"` + hash + `","scopes":["read","work"]}]}`,
	} {
		cfg, err := load(t, text)
		if err == nil {
			err = cfg.Check()
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	cfg, err := load(t, `{"dir":"jobs"}`)
	if err != nil || !filepath.IsAbs(cfg.Dir) {
		t.Errorf("dir is %q, %v: it stands beside the file", cfg.Dir, err)
	}
}

// TestTheSchemaAndTheExample holds the files that ship to what the code says.
func TestTheSchemaAndTheExample(t *testing.T) {
	made, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../../../docs/serve.schema.json"
	if *update {
		if err := os.WriteFile(file, made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, kept) {
		t.Errorf("the schema is not that of %s (go test ./cmd/spool/internal/serve -update rewrites it)", file)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(made, &schema); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load("../../../../docs/serve.example.json")
	if err != nil {
		t.Fatal(err)
	}
	cfg.TLSCert, cfg.TLSKey, cfg.AuditLog = "", "", "" // they are nowhere yet
	t.Setenv(cfg.Push[0].SecretEnv, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "spool credential web --scope produce --scope read") {
		t.Errorf("what stands in for a hash is taken: %v", err)
	}
	for i := range cfg.Credentials {
		cfg.Credentials[i].Hash = server.HashSecret(server.NewSecret())
	}
	if warnings := cfg.Warnings(); warnings != nil {
		t.Error(warnings)
	}
	if err := cfg.Check(); err != nil {
		t.Error(err)
	}
	example, err := os.ReadFile("../../../../docs/serve.example.json")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(example, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if schema.Properties[name] == nil {
			t.Errorf("the schema does not know %s", name)
		}
	}
}

func TestDeliveriesThatNobodySignsAreWarnedOf(t *testing.T) {
	c := Config{Push: []Push{{Queue: "a", URL: "https://a.example", SecretEnv: "X"}, {Queue: "b", URL: "https://b.example"}}}
	if got := c.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], "push[1]: the deliveries of queue b are not signed") {
		t.Errorf("warned of %q", got)
	}
}

// TestTheExampleFitsTheUnit: what the example names is where the unit lets it be.
func TestTheExampleFitsTheUnit(t *testing.T) {
	cfg, err := Load("../../../../docs/serve.example.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../../../../contrib/systemd/spool.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			unit[name] = append(unit[name], value)
		}
	}
	for _, is := range []struct{ field, value, want string }{
		{"dir", cfg.Dir, "/var/lib/" + unit["StateDirectory"][0]},
		{"audit_log", filepath.Dir(cfg.AuditLog), "/var/log/" + unit["LogsDirectory"][0]},
	} {
		if is.value != is.want {
			t.Errorf("%s is %s, the unit allows %s", is.field, is.value, is.want)
		}
	}
	for _, file := range []string{cfg.TLSCert, cfg.TLSKey} {
		if dir, name := filepath.Split(file); dir != "/run/credentials/spool.service/" || !strings.Contains(strings.Join(unit["LoadCredential"], " "), name+":/etc/spool/"+name) {
			t.Errorf("the unit does not hand over %s", file)
		}
	}
	if !strings.Contains(unit["ExecStart"][0], "/etc/spool/serve.json") || unit["EnvironmentFile"] == nil {
		t.Error("the unit reads another file, or no secrets")
	}
}

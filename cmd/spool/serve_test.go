package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool/broker/httpbroker"
)

// serving starts spool serve and returns where it is, once it listens.
func (s *tool) serving(args ...string) (url string, cmd *exec.Cmd) {
	s.t.Helper()
	cmd = s.process(append([]string{"serve", "--addr", "127.0.0.1:0", "--json"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	s.start(cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		s.t.Fatalf("%v: %s", err, log.String())
	}
	return object[served](s.t, line).URL, cmd
}

// stopped ends a process as an operator does.
func stopped(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestServeIsABrokerOfTheCommandLine(t *testing.T) {
	s := newTool(t)
	url, cmd := s.serving()
	far := func(args ...string) string {
		t.Helper()
		a := system()
		var out, errout strings.Builder
		a.in, a.stdout, a.errw = strings.NewReader(""), &out, &errout
		if code := run(append([]string{"--broker", url}, args...), a); code != exitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, errout.String())
		}
		return out.String()
	}
	id := strings.TrimSpace(far("enqueue", "mail", `{"to": "ada"}`))
	if got := far("show", id); !strings.Contains(got, `{"to": "ada"}`) {
		t.Errorf("shown as %s", got)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.Request.URL.Path != "/ui/" || !strings.Contains(string(page), "Overview") {
		t.Errorf("a browser sees %v at %s: %.300s", err, resp.Request.URL, page)
	}
	far("work", "--drain", "--quiet", "--exec", "cat")
	if got := far("stats"); !strings.Contains(got, "behind the server at "+url) {
		t.Errorf("stats say nothing of the server: %s", got)
	}
	stopped(t, cmd)
	if got := s.ok("list", "--state", "done"); !strings.Contains(got, id) {
		t.Errorf("the job is not in the directory: %s", got)
	}
}

func TestServeGuardsWhatOthersCanReach(t *testing.T) {
	s := newTool(t)
	s.fails(exitUsage, "no credentials are asked for", "serve", "--addr", ":0")
	s.fails(exitUsage, "there is no such field", "serve", "--config", s.file("c.json", `{"port":80}`))
	s.fails(exitUsage, "no such file", "serve", "--config", "nothing.json")
	s.fails(exitUsage, "scope", "credential", "web")

	made := object[newCredential](t, s.ok("credential", "web", "--scope", "produce", "--scope", "read", "--json"))
	entry := fmt.Sprintf(`{"name":"web","hash":%q,"scopes":["produce","read"]}`, made.Credential.Hash)
	url, cmd := s.serving("--config", s.file("d.json", `{"credentials":[`+entry+`]}`))
	if _, err := httpbroker.Open(t.Context(), url, httpbroker.Config{}); err == nil || !strings.Contains(err.Error(), "Authorization") {
		t.Errorf("opened without a credential: %v", err)
	}
	for _, secret := range []string{"", "wrong"} {
		t.Setenv(passwordEnv, secret)
		r := spoolWith("--broker", url, "stats")
		if r.code != exitFailed || !strings.Contains(r.errout, "asks for a credential") || !strings.Contains(r.errout, passwordEnv) || strings.Contains(r.errout, "Authorization") {
			t.Errorf("with the secret %q: %+v", secret, r)
		}
	}
	t.Setenv(passwordEnv, made.Secret)
	if r := spoolWith("--broker", url, "stats"); r.code != exitOK {
		t.Errorf("with its secret: %+v", r)
	}
	b, err := httpbroker.Open(t.Context(), url, httpbroker.Config{Credential: made.Secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Counts(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if _, err := b.Maintain(t.Context()); err == nil || !strings.Contains(err.Error(), "operate") {
		t.Errorf("operated without the scope: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	stopped(t, cmd)
}

// file writes a file for the test.
func (s *tool) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func TestServeOnASocketAndWithTLS(t *testing.T) {
	s := newTool(t)
	socket := filepath.Join(t.TempDir(), "s")
	_, first := s.serving("--addr", "unix:"+socket)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	s.fails(exitFailed, "listens at", "serve", "--addr", "unix:"+socket)
	if err := first.Process.Kill(); err != nil { // which leaves the socket behind
		t.Fatal(err)
	}
	_ = first.Wait()
	_, second := s.serving("--addr", "unix:"+socket)
	b, err := httpbroker.Open(t.Context(), "http://spool", httpbroker.Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if r := spoolWith("--broker", "http+unix://"+socket, "stats"); r.code != exitOK || !strings.Contains(r.out, "store http+unix://"+socket+" is healthy") {
		t.Errorf("%+v", r)
	}
	if r := spoolWith("--broker", "unix://"+socket, "stats"); r.code != exitUsage || !strings.Contains(r.errout, "http+unix://"+socket+" is spool serve") {
		t.Errorf("%+v", r)
	}
	stopped(t, second)

	cert, key, pool := selfSigned(t)
	url, third := s.serving("--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(url, "https://") {
		t.Errorf("it serves %s", url)
	}
	b, err = httpbroker.Open(t.Context(), url, httpbroker.Config{TLS: &tls.Config{RootCAs: pool}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	stopped(t, third)
}

// selfSigned writes a certificate for loopback.
func selfSigned(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, &of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return cert, key, pool
}

// TestTheExamplesInOtherLanguages runs the workers of examples/http.
func TestTheExamplesInOtherLanguages(t *testing.T) {
	for _, c := range []struct{ command, file, says string }{
		{"python3", "worker.py", "python"}, {"node", "worker.mjs", "node"},
	} {
		t.Run(c.says, func(t *testing.T) {
			runs, err := exec.LookPath(c.command)
			if err != nil {
				t.Fatalf("%v: .ci/languages installs it", err)
			}
			s := newTool(t)
			url, cmd := s.serving()
			good := s.enqueue("mail", `{"to": "ada", "n": 12345678901234567890}`, "--retain", "1h")
			bad := s.enqueue("fail", "--max-attempts", "1")
			worker := exec.Command(runs, filepath.Join("..", "..", "examples", "http", c.file), url)
			worker.Stdout, worker.Stderr = io.Discard, os.Stderr
			s.start(worker)
			b, err := httpbroker.Open(t.Context(), url, httpbroker.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			for id, want := range map[string]string{good: `done`, bad: `dead`} {
				for s.show(id)["state"] != want {
					if ctx.Err() != nil {
						t.Fatalf("job %s is %v", id, s.show(id))
					}
				}
			}
			if got := s.show(good)["result_text"]; !strings.Contains(fmt.Sprint(got), c.says) {
				t.Errorf("the result is %v", got)
			}
			if got, err := b.Workers(ctx, "mail"); err != nil || len(got) != 1 || !strings.HasPrefix(got[0].ID, c.says+"-") {
				t.Errorf("the workers are %+v, %v", got, err)
			}
			if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := worker.Wait(); err != nil { // at once, though a claim waits
				t.Errorf("the worker ended with %v", err)
			}
			if got, err := b.Workers(ctx, ""); err != nil || len(got) != 0 {
				t.Errorf("the workers that have left are %+v, %v", got, err)
			}
			stopped(t, cmd)
		})
	}
}

func TestAWholeLifeWithCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("%v: .ci/languages installs it", err)
	}
	s := newTool(t)
	url, cmd := s.serving()
	out, err := exec.Command("sh", filepath.Join("..", "..", "examples", "http", "life.sh"), url).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `{"sent": true}`) || !strings.HasSuffix(string(out), "# done\n") {
		t.Errorf("%v\n%s", err, out)
	}
	stopped(t, cmd)
}

// A request that waits is answered when the server stops.
func TestServeStopsWhileClaimsWait(t *testing.T) {
	s := newTool(t)
	url, cmd := s.serving()
	answered := make(chan string, 1)
	go func() {
		resp, err := http.Post(url+"/v1/claim", "application/json", strings.NewReader(`{"worker":"w","wait":"50s"}`))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		answered <- fmt.Sprint(resp.StatusCode, string(b), err)
	}()
	b, err := httpbroker.Open(t.Context(), url, httpbroker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for listed := 0; listed == 0; { // the server lists who claims once it has the request
		all, err := b.Workers(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		listed = len(all)
	}
	stopped(t, cmd)
	if got := <-answered; !strings.Contains(got, `200{"leases":[]}`) {
		t.Errorf("answered %s", got)
	}
}

func TestServeDeliversAQueueToAURL(t *testing.T) {
	got := make(chan string, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s %v %v", b, r.Header.Get("webhook-signature") != "", err)
	}))
	defer target.Close()
	t.Setenv("SPOOL_TEST_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	s := newTool(t)
	_, cmd := s.serving("--config", s.file("c.json", `{"push":[{"queue":"hooks","url":"`+target.URL+`","secret_env":"SPOOL_TEST_SECRET","allow_private":true}]}`))
	s.enqueue("order.paid", `{"n":  1}`, "--queue", "hooks")
	if is := <-got; is != `{"n":  1} true <nil>` {
		t.Errorf("delivered %s", is)
	}
	stopped(t, cmd)
	if out := s.ok("stats"); !strings.Contains(out, "hooks") {
		t.Errorf("stats: %s", out)
	}
}

func TestTopPrintsSamples(t *testing.T) {
	s := newTool(t)
	s.enqueue("mail")
	if out := s.ok("top", "--once"); !strings.Contains(out, "default") {
		t.Errorf("printed %s", out)
	}
	out := s.ok("top", "--json", "--count", "2", "--every", "100ms")
	if n := strings.Count(out, `"rates":{"enqueued"`); strings.Count(out, "\n") != 2 || n < 2 {
		t.Errorf("printed %s", out)
	}
	s.fails(exitUsage, "--every", "top", "--every", "1ms")
}

// A client that stops in the middle of a body holds up nobody's restart.
func TestServeStopsWhileABodyDoesNotArrive(t *testing.T) {
	s := newTool(t)
	url, cmd := s.serving("--log-format", "json")
	log := cmd.Stderr.(*strings.Builder)
	for _, path := range []string{"/v1/jobs", "/v1/claim", "/enqueue"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", path)
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") { // it waits for the body
			t.Fatal(line, err)
		}
	}
	began := time.Now()
	stopped(t, cmd)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	for line := range strings.Lines(log.String()) {
		object[map[string]any](t, line)
	}
	for _, says := range []string{`"msg":"serving"`, `"msg":"stopping`, `"msg":"stopped serving"`} {
		if !strings.Contains(log.String(), says) {
			t.Errorf("the log does not say %s: %s", says, log)
		}
	}
}

package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
)

func TestMetricsAreServedUnlessTheConfigurationSaysNot(t *testing.T) {
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{})
	defer c.Close()
	if _, err := c.Enqueue(t.Context(), spool.Raw("mail", nil)); err != nil {
		t.Fatal(err)
	}
	scrape, observe := (&Config{}).metrics(c, "v1.2.3")
	request := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		observe(scrape).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w
	}
	request()
	text := request().Body.String()
	for _, want := range []string{
		`spool_jobs{queue="default",state="ready",task="mail"} 1`, `spool_build_info{version="v1.2.3"} 1`,
		`spool_http_request_duration_seconds_count{code="200",route="_none"} 1`, "go_goroutines ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the scrape", want)
		}
	}
	c.Close() // a store that is gone is a metric, no error
	scrape, observe = (&Config{}).metrics(c, "v1.2.3")
	if w := request(); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `spool_scrape_success{part="counts"} 0`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	off := false
	scrape, observe = (&Config{Metrics: &off}).metrics(c, "v1.2.3")
	if scrape != nil {
		t.Error("metrics are served though they are turned off")
	}
	h := http.NotFoundHandler()
	w := httptest.NewRecorder()
	observe(h).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a server without metrics answers %d", w.Code)
	}
}

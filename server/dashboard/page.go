package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

//go:embed pages
var pageFiles embed.FS

// whole is a whole number of any type.
func whole(n any) int64 { return reflect.ValueOf(n).Int() }

// pair is what a part of a page needs that is about one thing of many.
type pair struct {
	Page *page
	Item any
}

// section is a table of settings.
type section struct {
	Root, Name, Note string
	Rows             []settingRow
}

// pages are the parsed templates, by name.
type pages map[string]*template.Template

func parsePages() (pages, error) {
	base, err := template.New("layout.html").Funcs(template.FuncMap{
		"count": func(n any) string { return text.Count(whole(n)) }, "span": text.Span, "ago": ago, "since": since, "stamp": stamp, "bytes": text.Bytes, "plural": func(n any, one, many string) string { return text.Plural(whole(n), one, many) },
		"line": line, "text": blockText, "field": func(s string) string { return safe(s, false) }, "seg": escape, "stateOf": broker.State.String,
		"pair":    func(p *page, item any) pair { return pair{p, item} },
		"section": func(root, name, note string, rows []settingRow) section { return section{root, name, note, rows} },
	}).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		return nil, err
	}
	all := pages{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if all[name], err = t.ParseFS(pageFiles, "pages/"+f.Name()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// page is what the layout shows around Body, which is what a template is about.
type page struct {
	Title    string // of the store
	Heading  string // of the page
	Nav      string // which part of the navigation it belongs to
	Root     string // the relative way to the overview: "" or "../../"
	Now      time.Time
	ReadOnly bool
	Live     bool // the script may fetch the page anew to keep it live
	Flash    string
	Health   *broker.Health // nil: the store is well
	Body     any
}

// page begins a page for a request.
func (d *Dashboard) page(r *http.Request, nav, heading string, body any) *page {
	p := d.plainPage(r, heading, body)
	p.Nav, p.Flash = nav, flashOf(r)
	if h := d.health(); h.Status != broker.Healthy {
		p.Health = &h
	}
	return p
}

// plainPage is a page that asks the store nothing.
func (d *Dashboard) plainPage(r *http.Request, heading string, body any) *page {
	return &page{Title: d.cfg.Title, Heading: heading, Root: rootOf(r), Now: now(), ReadOnly: d.readOnly(r), Body: body}
}

// render answers with a page. It is made as a whole first, so that a fault makes
// no half page.
func (d *Dashboard) render(w http.ResponseWriter, status int, name string, p *page) error {
	var b bytes.Buffer
	if err := d.pages[name].ExecuteTemplate(&b, "layout.html", p); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// What the templates do not make safe by themselves, such as names that every
	// broker checks, is made so here.
	_, _ = io.WriteString(w, safe(b.String(), true)) // a client that has gone
	return nil
}

// refusal is an error that the page shows as it is.
type refusal struct {
	status int
	text   string
}

func (e refusal) Error() string { return e.text }

// fail answers with what went wrong.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	var say refusal
	if !errors.As(err, &say) {
		say = refusal{statusOf(err), err.Error()}
		if say.status == http.StatusInternalServerError {
			d.log.ErrorContext(r.Context(), "a page failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
	}
	if err := d.render(w, say.status, "error", d.plainPage(r, http.StatusText(say.status), say.text)); err != nil {
		d.log.ErrorContext(r.Context(), "the error page failed", "error", err)
		http.Error(w, "The page failed.", http.StatusInternalServerError)
	}
}

// statusOf is the status of a broker's error.
func statusOf(err error) int {
	for _, c := range [...]struct {
		err    error
		status int
	}{
		{broker.ErrNotFound, http.StatusNotFound}, {broker.ErrInvalid, http.StatusBadRequest}, {broker.ErrConflict, http.StatusConflict},
		{broker.ErrTooLarge, http.StatusRequestEntityTooLarge}, {broker.ErrClosed, http.StatusServiceUnavailable},
		{broker.ErrPoisoned, http.StatusServiceUnavailable}, {broker.ErrUnknown, http.StatusServiceUnavailable},
		{broker.ErrUnsupported, http.StatusNotImplemented},
	} {
		if errors.Is(err, c.err) {
			return c.status
		}
	}
	return http.StatusInternalServerError
}

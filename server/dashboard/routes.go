package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"time"
)

//go:embed assets
var assets embed.FS

// A route is a method and a path below the prefix, and what serves it.
type route struct {
	method, path string
	serve        func(http.ResponseWriter, *http.Request) error
}

// table lists all there is. What changes the store is a POST.
func (d *Dashboard) table() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/{$}", d.overview},
		{get, "/series.json", d.seriesJSON},
		{get, "/find", d.find},
		{get, "/queues", d.queues},
		{get, "/queues/{queue}", d.toJobs},
		{get, "/queues/{queue}/jobs", d.jobs},
		{get, "/queues/{queue}/jobs/{id}", d.job},
		{get, "/queues/{queue}/jobs/{id}/payload", d.payload},
		{get, "/queues/{queue}/jobs/{id}/result", d.result},
		{get, "/dead", d.dead},
		{get, "/schedules", d.schedules},
		{get, "/workers", d.workers},
		{get, "/limits", d.limits},
		{post, "/queues/{queue}/pause", d.acting(d.pause)},
		{post, "/queues/{queue}/resume", d.acting(d.pause)},
		{post, "/queues/{queue}/preview", d.acting(d.preview)},
		{post, "/queues/{queue}/run", d.acting(d.run)},
		{post, "/queues/{queue}/jobs/{id}/cancel", d.acting(d.actOnJob)},
		{post, "/queues/{queue}/jobs/{id}/requeue", d.acting(d.actOnJob)},
		{post, "/queues/{queue}/schedules/{name}/pause", d.acting(d.actOnSchedule)},
		{post, "/queues/{queue}/schedules/{name}/resume", d.acting(d.actOnSchedule)},
		{post, "/queues/{queue}/schedules/{name}/trigger", d.acting(d.actOnSchedule)},
	}
}

func (d *Dashboard) routes() {
	d.mux = http.NewServeMux()
	for _, rt := range d.table() {
		d.mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) {
			if err := rt.serve(w, r); err != nil {
				d.fail(w, r, err)
			}
		})
	}
	d.mux.HandleFunc("GET /assets/{file}", func(w http.ResponseWriter, r *http.Request) {
		name := "assets/" + r.PathValue("file")
		b, err := assets.ReadFile(name)
		if err != nil {
			d.noRoute(w, r)
			return
		}
		sum := sha256.Sum256(b)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		w.Header().Set("Cache-Control", "no-cache") // ask each time: a newer program has newer files
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
	})
}

// acting refuses what changes something when the dashboard is read-only.
func (d *Dashboard) acting(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if d.readOnly(r) {
			return refusal{http.StatusForbidden, "This dashboard is read-only."}
		}
		if err := r.ParseForm(); err != nil {
			return refusal{http.StatusBadRequest, "The form could not be read: it is damaged or too large."}
		}
		return serve(w, r)
	}
}

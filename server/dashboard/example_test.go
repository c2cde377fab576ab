package dashboard_test

import (
	"log"
	"net/http"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/server/dashboard"
)

// requireLogin stands for what your server has.
func requireLogin(h http.Handler) http.Handler { return h }

// userOf stands for what your server knows of a request.
func userOf(r *http.Request) string { return r.Header.Get("X-User") }

// A dashboard in a server of your own, under a prefix, behind its login.
func Example() {
	client, err := spool.Open("./jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	pages, err := dashboard.New(client, dashboard.Config{
		Title:  "Shop jobs",
		Caller: userOf, // who acts, for the audit log
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close() // before the client

	mux := http.NewServeMux()
	mux.Handle("/ops/queue/", requireLogin(http.StripPrefix("/ops/queue", pages)))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}

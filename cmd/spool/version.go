package main

import (
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// versionView is what version prints with --json.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	System   string `json:"system"`
}

// Run prints the version.
func (*versionCmd) Run(a *app) error {
	v := versionView{Version: version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	if a.json {
		return a.object(v)
	}
	return a.printf("spool %s %s %s %s", v.Version, v.Revision, v.Go, v.System)
}

// version is that of the module, "(devel)" where it is not known.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

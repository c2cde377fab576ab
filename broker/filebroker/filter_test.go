package filebroker

import (
	"fmt"
	"testing"

	"github.com/spoolq/spool/broker"
)

func TestAFilterAdmitsWhatAWorkerTakesAndLittleElse(t *testing.T) {
	w := broker.Worker{Queues: []string{"q", "r"}}
	for i := range 5 {
		w.Tasks = append(w.Tasks, fmt.Sprint("task", i))
	}
	f := filterOf(&w)
	for _, q := range w.Queues {
		for _, task := range w.Tasks {
			if !f.admits(q, task) {
				t.Errorf("%s of %s is taken, and not admitted", task, q)
			}
		}
	}
	wrong := 0
	for i := range 1000 {
		if f.admits("q", fmt.Sprint("other", i)) {
			wrong++
		}
	}
	if wrong > 60 {
		t.Errorf("%d of 1000 other tasks are admitted", wrong)
	}
	all := filterOf(&broker.Worker{})
	if !all.admits("any", "task") || filter(0).admits("q", "task0") {
		t.Error("a worker that names nothing takes everything, and none takes nothing")
	}
}

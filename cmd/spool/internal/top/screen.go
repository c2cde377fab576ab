package top

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spoolq/spool"
)

// Screen shows a store until somebody quits or ctx ends.
func Screen(ctx context.Context, c *spool.Client, place string, every time.Duration, in io.Reader, out io.Writer) error {
	m := &screen{ctx: ctx, client: c, place: place, every: every}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// screen is the model of the terminal program.
type screen struct {
	ctx           context.Context
	client        *spool.Client
	place         string
	every         time.Duration
	width, height int
	last          *Sample
	err           error
	still         bool
}

// taken is a sample, or why there is none.
type taken struct {
	sample *Sample
	err    error
}

type due struct{}

// Init implements tea.Model.
func (m *screen) Init() tea.Cmd { return m.take }

func (m *screen) take() tea.Msg {
	s, err := Take(m.ctx, m.client, time.Now(), m.last)
	return taken{s, err}
}

// Update implements tea.Model.
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		case "space", " ":
			m.still = !m.still
		}
	case taken:
		if m.err = msg.err; msg.err == nil && !m.still {
			m.last = msg.sample
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return due{} })
	case due:
		return m, m.take
	}
	return m, nil
}

// View implements tea.Model.
func (m *screen) View() tea.View {
	v := tea.View{AltScreen: true, WindowTitle: "spool top"}
	switch {
	case m.last == nil && m.err == nil:
		v.SetContent("spool top: reading " + m.place)
	case m.last == nil:
		v.SetContent("spool top: " + m.err.Error())
	default:
		foot := "q quits, space stands still"
		if m.still {
			foot = "stands still: space goes on"
		}
		if m.err != nil {
			foot = "old figures: " + m.err.Error()
		}
		v.SetContent(Render(m.place, m.last, m.width, max(m.height-2, 0)) + "\n\n" + foot)
	}
	return v
}

package lab

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"weft/internal/state"
)

// places maps keys to their positions in the file. Keys are written like
// node[2].process[0].argv, counting from 0.
type places struct {
	file string
	at   map[string]state.Position
}

// find returns the position of the key or of the nearest thing around it.
func (p places) find(path string) state.Position {
	for path != "" {
		if pos, ok := p.at[path]; ok {
			return pos
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return state.Position{File: p.file}
}

// indexPlaces goes through a document that is known to parse.
func indexPlaces(src Source) places {
	p := places{file: src.File, at: map[string]state.Position{}}
	var parser unstable.Parser
	parser.Reset(src.Text)
	counts := map[string]int{}
	table := ""
	for parser.NextExpression() {
		e := parser.Expression()
		var keys []string
		pos := state.Position{File: src.File}
		for it := e.Key(); it.Next(); {
			keys = append(keys, string(it.Node().Data))
			if pos.Line == 0 {
				start := parser.Shape(it.Node().Raw).Start
				pos.Line, pos.Column = start.Line, start.Column
			}
		}
		switch e.Kind {
		case unstable.KeyValue:
			p.at[extend(table, keys, counts)] = pos
		case unstable.Table:
			table = extend("", keys, counts)
			p.at[table] = pos
		case unstable.ArrayTable:
			last := len(keys) - 1
			name := strings.TrimPrefix(extend("", keys[:last], counts)+"."+keys[last], ".")
			table = fmt.Sprintf("%s[%d]", name, counts[name])
			counts[name]++
			p.at[table] = pos
		}
	}
	return p
}

// extend walks keys down from table; inside an array of tables it means the
// latest one, as TOML does.
func extend(table string, keys []string, counts map[string]int) string {
	for _, k := range keys {
		table = strings.TrimPrefix(table+"."+k, ".")
		if n := counts[table]; n > 0 {
			table = fmt.Sprintf("%s[%d]", table, n-1)
		}
	}
	return table
}

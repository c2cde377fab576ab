package serve

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Schema is the JSON Schema of a configuration file, made from Config.
func Schema() ([]byte, error) {
	defs := huma.NewMapRegistry("#/$defs/", huma.DefaultSchemaNamer)
	root := huma.SchemaFromType(defs, reflect.TypeFor[Config]())
	var doc map[string]any
	for _, part := range []struct {
		into *map[string]any
		from any
	}{{&doc, root}} {
		b, err := json.Marshal(part.from)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, part.into); err != nil {
			return nil, err
		}
	}
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "Configuration of spool serve"
	doc["$defs"] = defs.Map()
	b, err := json.MarshalIndent(doc, "", "  ")
	return append(b, '\n'), err
}

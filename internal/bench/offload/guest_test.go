package offload

import (
	"strings"
	"testing"
)

func TestTheFlowtableIsInTheRulesetOfAllOthers(t *testing.T) {
	text := policyOf("kernel-flowtable")
	flowAt, establishedAt := strings.Index(text, "flow add @fast"), strings.Index(text, "ct state vmap")
	if flowAt < 0 || establishedAt < flowAt || !strings.Contains(text, "flowtable fast {") {
		t.Errorf("the ruleset is\n%s", text)
	}
	rest := strings.Replace(strings.Replace(text, flowtable, "", 1), "    "+flowtableRule+"\n", "", 1)
	if rest != policy || policyOf("kernel") != policy {
		t.Errorf("what is left without it is\n%s", rest)
	}
}

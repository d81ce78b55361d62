package dns64

import "container/list"

// lru is a table of bounded size that forgets what was used longest ago. It is
// not safe for concurrent use.
type lru[K comparable, V any] struct {
	limit int
	order *list.List // of *pair, the last used first
	at    map[K]*list.Element
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, order: list.New(), at: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(k K) (v V, ok bool) {
	e, ok := l.at[k]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*pair[K, V]).value, true
}

func (l *lru[K, V]) put(k K, v V) {
	if e, ok := l.at[k]; ok {
		e.Value.(*pair[K, V]).value = v
		l.order.MoveToFront(e)
		return
	}
	l.at[k] = l.order.PushFront(&pair[K, V]{k, v})
	l.shrink()
}

func (l *lru[K, V]) drop(k K) {
	if e, ok := l.at[k]; ok {
		l.order.Remove(e)
		delete(l.at, k)
	}
}

func (l *lru[K, V]) shrink() {
	for l.order.Len() > l.limit {
		oldest := l.order.Back()
		l.order.Remove(oldest)
		delete(l.at, oldest.Value.(*pair[K, V]).key)
	}
}

func (l *lru[K, V]) len() int { return l.order.Len() }

package simulate

// ring is a queue that keeps its memory.
type ring[T any] struct {
	items      []T // length 0 or a power of two
	head, tail uint64
}

func (r *ring[T]) len() int { return int(r.tail - r.head) }

func (r *ring[T]) push(x T) {
	if r.len() == len(r.items) {
		r.grow()
	}
	r.items[r.tail&uint64(len(r.items)-1)] = x
	r.tail++
}

// front returns the oldest item of a ring that is not empty.
func (r *ring[T]) front() *T { return &r.items[r.head&uint64(len(r.items)-1)] }

func (r *ring[T]) pop() T {
	x := *r.front()
	r.head++
	return x
}

func (r *ring[T]) clear() { r.head = r.tail }

// window is an array of the values of lo..hi-1, moving upwards.
type window[T any] struct {
	items  []T // length 0 or a power of two
	lo, hi uint64
}

func (w *window[T]) at(i uint64) *T { return &w.items[i&uint64(len(w.items)-1)] }

// extend makes room up to and with index i; new values are zero.
func (w *window[T]) extend(i uint64) {
	for i >= w.lo+uint64(len(w.items)) {
		w.grow()
	}
	var zero T
	for ; w.hi <= i; w.hi++ {
		*w.at(w.hi) = zero
	}
}

func (w *window[T]) grow() {
	items := make([]T, max(16, 2*len(w.items)))
	for i := w.lo; i < w.hi; i++ {
		items[i&uint64(len(items)-1)] = *w.at(i)
	}
	w.items = items
}

func (r *ring[T]) grow() {
	items := make([]T, max(16, 2*len(r.items)))
	for i := r.head; i < r.tail; i++ {
		items[i&uint64(len(items)-1)] = r.items[i&uint64(len(r.items)-1)]
	}
	r.items = items
}

package aaa

import (
	"context"
	"sync"

	"weft/internal/feature/access"
)

// Book is an account that no server has taken yet.
type Book struct {
	Account *access.Account
	Total   access.Traffic
}

// books are those of a client. They wait in one list, not each by itself: after a
// storm there are tens of thousands.
type books struct {
	mu      sync.Mutex
	list    []*Book
	news    chan struct{}
	running bool
	tasks   sync.WaitGroup
}

func (b *books) add(one *Book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, one)
}

// Account tells what a session has carried, as soon as a server takes it, until
// ctx ends; it does not wait for that.
func (c *Client) Account(ctx context.Context, a *access.Account, total access.Traffic) {
	b := &c.books
	b.mu.Lock()
	b.list = append(b.list, &Book{a, total})
	if !b.running {
		b.running, b.news = true, make(chan struct{}, 1)
		b.tasks.Go(func() { c.keepBooks(ctx) })
	}
	b.mu.Unlock()
	c.wakeBooks()
}

// HandOver gives what waits to whoever asks other servers from now on.
func (c *Client) HandOver() []*Book {
	b := &c.books
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

// Leave gives what no server has taken, for the process that comes next. The
// contexts of all accounts have ended.
func (c *Client) Leave() []*Book {
	c.books.tasks.Wait()
	return c.HandOver()
}

func (c *Client) wakeBooks() {
	select {
	case c.books.news <- struct{}{}:
	default:
	}
}

// keepBooks sends accounts, many at a time. While nobody takes them, it tries
// one now and then, and the others wait.
func (c *Client) keepBooks(ctx context.Context) {
	room := make(chan struct{}, AtATime)
	silent := make(chan struct{}, AtATime)
	for {
		one, ok := c.nextBook()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-c.books.news:
			}
			continue
		}
		select {
		case <-silent:
			if !c.tellWhenHeard(ctx, one) {
				return
			}
			for len(silent) > 0 {
				<-silent
			}
			continue
		case room <- struct{}{}:
		case <-ctx.Done():
			c.books.add(one)
			return
		}
		c.books.tasks.Go(func() {
			defer func() { <-room }()
			if c.tell(ctx, one) == nil {
				return
			}
			if one.Account.Kind != access.AccountInterim { // of that the next says more
				c.books.add(one)
			}
			select {
			case silent <- struct{}{}:
			default:
			}
			c.wakeBooks()
		})
	}
}

func (c *Client) nextBook() (*Book, bool) {
	b := &c.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) == 0 {
		b.list = nil
		return nil, false
	}
	one := b.list[0]
	b.list[0] = nil
	b.list = b.list[1:]
	return one, true
}

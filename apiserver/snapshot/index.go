package snapshot

import "github.com/cilium/statedb/part"

// indexes are the trees of a snapshot.
type indexes struct {
	entries     index[*Entry]               // by identity
	slugs       index[*Entry]               // by kind, deployment and key
	hosts       index[*Entry]               // by host
	issuing     index[*Entry]               // OAuth apps by the host and path of their issuer
	keys        index[*Key]                 // by public id
	ordered     index[*Entry]               // by kind, deployment, newest first, then higher id first
	referrers   index[*Entry]               // by the identity referred to and the identity that refers
	ids         index[*Entry]               // by kind and id
	issuers     index[*Issuer]              // by issuer and audience
	counts      index[int]                  // by kind and deployment, and of active agents
	servers     index[*AuthorizationServer] // by the identity of an OAuth app
	states      index[*State]               // by deployment
	byDomain    index[*Entry]               // connections by deployment, domain and slug
	byOrg       index[*Entry]               // connections by deployment, organization and slug
	directories index[*Entry]               // directories by deployment, organization and slug
	unread      index[unread]               // documents that cannot be read, by identity
}

// all lists the indexes; a test compares it with the fields.
func (x *indexes) all() []interface {
	begin()
	commit()
} {
	return []interface {
		begin()
		commit()
	}{
		&x.entries, &x.slugs, &x.hosts, &x.issuing, &x.keys, &x.ordered, &x.referrers, &x.ids, &x.issuers, &x.counts, &x.servers, &x.states, &x.byDomain, &x.byOrg, &x.directories, &x.unread,
	}
}

// index is an immutable tree and, between begin and commit, the transaction that changes it. begin makes an empty tree
// of the zero value.
type index[T any] struct {
	tree *part.Tree[T]
	txn  *part.Txn[T]
}

// begin starts a transaction. Its result shares the unchanged nodes with the tree.
func (i *index[T]) begin() {
	if i.tree == nil {
		empty := part.New[T](part.RootOnlyWatch)
		i.tree = &empty
	}
	i.txn = i.tree.Txn()
}

// commit replaces the tree with the result of the transaction.
func (i *index[T]) commit() {
	tree := i.txn.Commit()
	i.tree, i.txn = &tree, nil
}

// Get returns the value of a key, including uncommitted changes.
func (i *index[T]) Get(key []byte) (T, bool) {
	if i.txn != nil {
		return i.txn.Get(key)
	}
	return i.tree.Get(key)
}

// WithPrefix visits the values whose keys begin with a prefix, in the order of their keys, until visit returns false.
// It includes uncommitted changes.
func (i *index[T]) WithPrefix(prefix []byte, visit func(T) bool) {
	all := i.tree.Prefix
	if i.txn != nil {
		all = i.txn.Prefix
	}
	for _, value := range all(prefix).All {
		if !visit(value) {
			return
		}
	}
}

// Insert sets the value of a key, which must not be changed afterwards.
func (i *index[T]) Insert(key []byte, value T) { i.txn.Insert(key, value) }

// Delete removes a key, and returns its value.
func (i *index[T]) Delete(key []byte) (T, bool) { return i.txn.Delete(key) }

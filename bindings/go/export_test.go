package cenote

// PoolExists tells tests whether the library still knows a pool.
func PoolExists(id uint64) bool {
	pool := &Pool{poolState: &poolState{id: id}}
	_, err := pool.Stats()
	return err == nil
}

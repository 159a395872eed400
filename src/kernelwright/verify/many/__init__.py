"""Many judgements: runs that resume, judges that stand ready, their workers and clocks."""

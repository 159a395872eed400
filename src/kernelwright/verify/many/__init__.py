"""Many judgements. `run` judges a list of jobs and can be resumed; `standing` keeps judges ready
for jobs that come at any time. Both use `engine`: workers that judge, and a clock owner for each
GPU."""

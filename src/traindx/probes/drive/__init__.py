"""What is asked when: recorder, plan of looks, gate, and where the numbers go."""
